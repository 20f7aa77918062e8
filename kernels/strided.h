#pragma once
#include "kernels/lines.h"
#include "kernels/reference.h"
#include "kernels/transpose.h"

/// Between a packed block [token][dim] and the caller's strides, both of one element size: every layout, the common ones fast.
/// `out` says the direction: packed -> caller (gather) or caller -> packed (append).
namespace kvc::kernels {

/// Consecutive tokens that lie in one block of the caller.
struct Run {
  uint8_t *data;  // first token, first head, first dim
  uint32_t tokens;
};

static inline Run run_at(const RowsSide &rows, uint32_t token, uint32_t token_count) {
  uint32_t tokens = token_count - token;
  if (rows.blocks != nullptr) {
    uint64_t left = rows.block_tokens == 1 ? 1 : rows.block_tokens - (rows.slot_begin + token) % rows.block_tokens;
    if (left < tokens) tokens = static_cast<uint32_t>(left);
  }
  return {row_address(rows, token, 0), tokens};
}

/// How one head's rows lie at the caller, decided once a call.
struct Layout {
  enum class Kind { rows, transposed, groups } kind;
  size_t element, row_bytes;
  size_t group_bytes, last_group_bytes, group_count;  // a row in pieces that are contiguous at the caller
  uint64_t token_stride, dim_stride;
};

static inline Layout layout_of(const RowsSide &rows, uint32_t dim) {
  Layout layout{};
  layout.element = element_bytes(rows.dtype);
  layout.row_bytes = dim * layout.element;
  layout.token_stride = rows.token_stride;
  layout.dim_stride = rows.dim_stride;
  if (rows.dim_group >= dim || rows.dim_stride == rows.dim_group * layout.element) {
    layout.kind = Layout::Kind::rows;
    return layout;
  }
  layout.kind = rows.dim_group == 1 && rows.token_stride == layout.element ? Layout::Kind::transposed : Layout::Kind::groups;
  layout.group_bytes = rows.dim_group * layout.element;
  layout.group_count = (dim + rows.dim_group - 1) / rows.dim_group;
  layout.last_group_bytes = layout.row_bytes - (layout.group_count - 1) * layout.group_bytes;
  return layout;
}

template <bool out>
static inline void copy_piece(uint8_t *caller, uint8_t *packed, size_t bytes, const uint8_t *next, bool stream) {
  if (stream) {
    copy_streamed(out ? caller : packed, out ? packed : caller, bytes, next);
  } else {
    copy_cached(out ? caller : packed, out ? packed : caller, bytes);
  }
}

/// Rows that are contiguous each; `next` is where rows like these continue on the source's side, with the same stride.
template <bool out>
static inline void move_rows(const Layout &layout, uint8_t *caller, uint8_t *packed, uint32_t tokens, const uint8_t *next, bool stream) {
  if (layout.token_stride == layout.row_bytes) {
    copy_piece<out>(caller, packed, layout.row_bytes * tokens, next, stream);
    return;
  }
  uint32_t ahead = ahead_pieces(layout.row_bytes);
  if (ahead > tokens) ahead = tokens;
  size_t source_stride = out ? layout.row_bytes : layout.token_stride;
  for (uint32_t token = 0; token < tokens; ++token) {
    uint32_t then = token + ahead;
    uint8_t *row = caller + token * layout.token_stride;
    const uint8_t *source = out ? packed : row;
    const uint8_t *fetch = then < tokens ? source + ahead * source_stride : next + (then - tokens) * source_stride;
    copy_piece<out>(row, packed, layout.row_bytes, fetch, stream);
    packed += layout.row_bytes;
  }
}

/// Rows of single elements that lie next to those of the neighbouring tokens: [dim][token] at the caller.  A band of dims at a time,
/// because their distance is the length of a sequence, often a power of two: more of them at once would fall into the same few sets of
/// the cache.
template <bool out, size_t element>
static void move_transposed(const Layout &layout, uint8_t *caller, uint8_t *packed, uint32_t tokens, bool stream) {
  constexpr size_t band = 16, stage_tokens = 256;
  alignas(line_bytes) uint8_t stage[band * stage_tokens * element];
  size_t dim = layout.row_bytes / element, column_bytes = tokens * element;
  for (size_t d = 0; d < dim; d += band, caller += band * layout.dim_stride, packed += band * element) {
    size_t width = dim - d < band ? dim - d : band;
    for (size_t i = 0; !(out && stream) && d + band < dim && i < band; ++i) {
      for (size_t line = 0; line < column_bytes; line += line_bytes) prefetch_line(caller + (band + i) * layout.dim_stride + line);
    }
    if (!out) {
      transpose<element, true>(packed, layout.row_bytes, caller, layout.dim_stride, width, tokens);
    } else if (!stream || tokens > stage_tokens) {
      transpose<element, false>(caller, layout.dim_stride, packed, layout.row_bytes, tokens, width);
    } else {
      // A tile is a fraction of a line; whole lines are made in cache first.
      transpose<element, false>(stage, column_bytes, packed, layout.row_bytes, tokens, width);
      for (size_t i = 0; i < width; ++i) copy_streamed(caller + i * layout.dim_stride, stage + i * column_bytes, column_bytes, stage);
    }
  }
}

template <bool out, size_t bytes>
static inline void move_group_column(const Layout &layout, uint8_t *caller, uint8_t *packed, uint32_t tokens) {
  for (uint32_t token = 0; token < tokens; ++token) {
    uint8_t *row = caller + token * layout.token_stride;
    memcpy(out ? row : packed, out ? packed : row, bytes);
    packed += layout.row_bytes;
  }
}

/// The general case: one group of all tokens after another.
template <bool out>
static void move_groups(const Layout &layout, uint8_t *caller, uint8_t *packed, uint32_t tokens) {
  for (size_t group = 0; group < layout.group_count; ++group) {
    uint8_t *there = caller + group * layout.dim_stride, *here = packed + group * layout.group_bytes;
    size_t bytes = group + 1 == layout.group_count ? layout.last_group_bytes : layout.group_bytes;
    switch (bytes) {
      case 1: move_group_column<out, 1>(layout, there, here, tokens); break;
      case 2: move_group_column<out, 2>(layout, there, here, tokens); break;
      case 4: move_group_column<out, 4>(layout, there, here, tokens); break;
      case 8: move_group_column<out, 8>(layout, there, here, tokens); break;
      case 16: move_group_column<out, 16>(layout, there, here, tokens); break;
      default:
        for (uint32_t token = 0; token < tokens; ++token) {
          uint8_t *outside = there + token * layout.token_stride, *inside = here + token * layout.row_bytes;
          memcpy(out ? outside : inside, out ? inside : outside, bytes);
        }
    }
  }
}

/// One head of one run.
template <bool out>
static inline void move_run(const Layout &layout, uint8_t *caller, uint8_t *packed, uint32_t tokens, const uint8_t *next, bool stream) {
  switch (layout.kind) {
    case Layout::Kind::rows: move_rows<out>(layout, caller, packed, tokens, next, stream); break;
    case Layout::Kind::groups: move_groups<out>(layout, caller, packed, tokens); break;
    case Layout::Kind::transposed:
      if (layout.element == 1) move_transposed<out, 1>(layout, caller, packed, tokens, stream);
      if (layout.element == 2) move_transposed<out, 2>(layout, caller, packed, tokens, stream);
      if (layout.element == 4) move_transposed<out, 4>(layout, caller, packed, tokens, stream);
      break;
  }
}

}  // namespace kvc::kernels
