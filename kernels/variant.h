#pragma once
#include "kernels/convert.h"
#include "kernels/strided.h"
#include "kernels/sum.h"

/// The entries of a Table, compiled once for each instruction set by base.cpp, avx2.cpp and avx512.cpp, whose flags choose the code in
/// the headers.
namespace kvc::kernels {

constexpr size_t stage_bytes = 16384;  // half of a first-level cache, and room for a row of 4,096 numbers

/// Whether rows of different heads lie closer together than those of different tokens.
static inline bool tokens_first(const RowsSide &rows) { return rows.head_stride < rows.token_stride; }

constexpr size_t rows_ahead = 2;

/// A row of every head, then the next token: the destination is written in one sweep, the page is read in as many as there are heads.
static void rows_out_interleaved(const Layout &layout, const RowsSide &to, const PageSide &from, const Move &move, const Run &run,
                                 uint32_t token) {
  size_t section_bytes = from.page_tokens * layout.row_bytes;
  uint8_t *stored = page_row(from, move.token_begin + token, move.head_begin);
  for (uint32_t i = 0; i < run.tokens; ++i) {
    uint8_t *row = run.data + i * to.token_stride;
    for (uint32_t head = 0; head < move.head_count; ++head) {
      uint8_t *source = stored + head * section_bytes;
      copy_piece<true>(row + head * to.head_stride, source, layout.row_bytes, source + rows_ahead * layout.row_bytes, move.stream);
    }
    stored += layout.row_bytes;
  }
}

/// Equal dtypes: straight between the page and the caller.
template <bool out>
static void move_equal(const RowsSide &rows, const PageSide &page, const Move &move) {
  Layout layout = layout_of(rows, page.dim);
  bool interleaved = out && layout.kind == Layout::Kind::rows && tokens_first(rows);
  for (uint32_t token = 0; token < move.token_count;) {
    Run run = run_at(rows, token, move.token_count);
    if (interleaved) {
      rows_out_interleaved(layout, rows, page, move, run, token);
    } else {
      for (uint32_t head = 0; head < move.head_count; ++head) {
        uint8_t *stored = page_row(page, move.token_begin + token, move.head_begin + head), *caller = run.data + head * rows.head_stride;
        const uint8_t *next = out ? stored + page.page_tokens * layout.row_bytes : caller + (head + 1 < move.head_count ? rows.head_stride : 0);
        move_run<out>(layout, caller, stored, run.tokens, next, move.stream);
      }
    }
    token += run.tokens;
  }
}

/// Different dtypes: by way of a block of rows in the caller's type that stays in the first-level cache.
template <bool out>
static void move_converted(const RowsSide &rows, const PageSide &page, const Move &move) {
  alignas(line_bytes) uint8_t stage[stage_bytes], result[stage_bytes];
  Layout layout = layout_of(rows, page.dim);
  size_t widest_row = static_cast<size_t>(page.dim) * 4;
  if (widest_row > stage_bytes) {
    move_reference<out>(rows, page, move);
    return;
  }
  uint32_t stage_tokens = static_cast<uint32_t>(stage_bytes / widest_row);
  for (uint32_t token = 0; token < move.token_count;) {
    Run run = run_at(rows, token, move.token_count);
    if (run.tokens > stage_tokens) run.tokens = stage_tokens;
    size_t count = static_cast<size_t>(run.tokens) * page.dim;
    for (uint32_t head = 0; head < move.head_count; ++head) {
      uint8_t *caller = run.data + head * rows.head_stride;
      uint8_t *stored = page_row(page, move.token_begin + token, move.head_begin + head);
      if (out) {
        convert_span(stage, rows.dtype, stored, page.dtype, count);
        move_run<out>(layout, caller, stage, run.tokens, stage, move.stream);
      } else {
        move_run<out>(layout, caller, stage, run.tokens, stage, false);
        convert_span(move.stream ? result : stored, page.dtype, stage, rows.dtype, count);
        if (move.stream) copy_streamed(stored, result, count * element_bytes(page.dtype), result);
      }
    }
    token += run.tokens;
  }
}

template <bool out>
static void move_any(const RowsSide &rows, const PageSide &page, const Move &move) {
  if (rows.dtype == page.dtype) {
    move_equal<out>(rows, page, move);
  } else {
    move_converted<out>(rows, page, move);
  }
  if (move.stream && !move.more) stream_fence();
}

static void rows_out(const RowsSide &to, const PageSide &from, const Move &move) { move_any<true>(to, from, move); }
static void rows_in(const PageSide &to, const RowsSide &from, const Move &move) { move_any<false>(from, to, move); }
static uint64_t sum(const void *data, size_t size) { return XXH3_64bits(data, size); }

static void copy(void *to, const void *from, size_t size, const void *next) {
  if (next) copy_streamed(static_cast<uint8_t *>(to), static_cast<const uint8_t *>(from), size, static_cast<const uint8_t *>(next));
  else memcpy(to, from, size);
}
static void fence() { stream_fence(); }

static uint64_t copy_sum(void *to, const void *from, size_t size, const void *next) {
  uint8_t *out = static_cast<uint8_t *>(to);
  const uint8_t *in = static_cast<const uint8_t *>(from);
  if (!can_sum_lines(size) || (reinterpret_cast<uintptr_t>(to) & (line_bytes - 1)) != 0) {
    memcpy(to, from, size);
    return sum(to, size);
  }
  LineSum sum_of(size);
  if (next) {
    size_t own = size > ahead_bytes ? size - ahead_bytes : 0;
    sum_of.copy<true>(out, in, own / line_bytes, in + ahead_bytes);
    sum_of.copy<true>(out + own, in + own, (size - own) / line_bytes, static_cast<const uint8_t *>(next));
  } else {
    sum_of.copy<false>(out, in, size / line_bytes, in);
  }
  return sum_of.result();
}

/// The caller's rows of a page in the order of the page: all tokens of a head, then the next head.
struct RowCursor {
  const uint8_t *row;
  uint32_t head, token, left;  // left: rows of this run, this one included
};

static inline RowCursor cursor_at(const RowsSide &rows, uint32_t head, uint32_t token, uint32_t token_count) {
  Run run = run_at(rows, token, token_count);
  return {run.data + head * rows.head_stride, head, token, run.tokens};
}

static inline void advance(RowCursor &cursor, const RowsSide &rows, uint32_t token_count) {
  ++cursor.token;
  if (--cursor.left != 0) {
    cursor.row += rows.token_stride;
    return;
  }
  bool next_head = cursor.token == token_count;
  cursor = cursor_at(rows, cursor.head + next_head, next_head ? 0 : cursor.token, token_count);
}

/// Contiguous rows of whole lines: copied straight from the caller, summed on the way, while a second cursor runs ahead of the first.
template <bool stream>
static uint64_t sum_rows(const PageSide &to, const RowsSide &from, uint32_t head_count, size_t row_bytes) {
  LineSum sum_of(head_count * to.page_tokens * row_bytes);
  uint32_t ahead = ahead_pieces(row_bytes), row_count = head_count * to.page_tokens;
  RowCursor now = cursor_at(from, 0, 0, to.page_tokens), soon = now;
  if (ahead >= row_count) ahead = row_count - 1;
  for (uint32_t i = 0; stream && i < ahead; ++i) advance(soon, from, to.page_tokens);
  for (uint32_t i = 0; i < row_count; ++i) {
    sum_of.copy<stream>(to.data + i * row_bytes, now.row, row_bytes / line_bytes, soon.row);
    if (i + 1 == row_count) break;
    advance(now, from, to.page_tokens);
    if (stream && i + 1 + ahead < row_count) advance(soon, from, to.page_tokens);
  }
  return sum_of.result();
}

/// Everything else whose tokens group into whole lines: packed in the first-level cache, then the same.
template <bool stream>
static uint64_t sum_staged(const PageSide &to, const RowsSide &from, uint32_t head_count, size_t row_bytes, uint32_t stage_tokens) {
  alignas(line_bytes) uint8_t stage[stage_bytes];
  LineSum sum_of(head_count * to.page_tokens * row_bytes);
  PageSide staged{stage, to.dtype, to.dim, stage_tokens};
  RowsSide part = from;
  uint8_t *stored = to.data;
  for (uint32_t head = 0; head < head_count; ++head) {
    for (uint32_t token = 0; token < to.page_tokens; token += stage_tokens) {
      part.data = from.data + head * from.head_stride;
      part.slot_begin = from.slot_begin + token;
      move_any<false>(part, staged, {0, stage_tokens, 0, 1, false});
      sum_of.copy<stream>(stored, stage, stage_tokens * row_bytes / line_bytes, stage);
      stored += stage_tokens * row_bytes;
    }
  }
  return sum_of.result();
}

/// The largest power of two of tokens that fits the stage, divides the page and makes whole lines; 0: none.
static uint32_t stage_tokens_of(const PageSide &page, size_t row_bytes) {
  for (uint32_t tokens = 64; tokens != 0; tokens /= 2) {
    if (page.page_tokens % tokens == 0 && tokens * row_bytes % line_bytes == 0 && tokens * row_bytes <= stage_bytes) return tokens;
  }
  return 0;
}

static uint64_t rows_in_sum(const PageSide &to, const RowsSide &from, uint32_t head_count, bool stream) {
  size_t row_bytes = static_cast<size_t>(to.dim) * element_bytes(to.dtype), size = head_count * to.page_tokens * row_bytes;
  bool aligned = (reinterpret_cast<uintptr_t>(to.data) & (line_bytes - 1)) == 0, streamed = stream && aligned;
  uint64_t result = 0;
  if (uint32_t stage_tokens = stage_tokens_of(to, row_bytes); !can_sum_lines(size) || stage_tokens == 0) {
    rows_in(to, from, {0, to.page_tokens, 0, head_count, false});
    return sum(to.data, size);
  } else if (to.dtype == from.dtype && row_bytes % line_bytes == 0 && layout_of(from, to.dim).kind == Layout::Kind::rows) {
    result = streamed ? sum_rows<true>(to, from, head_count, row_bytes) : sum_rows<false>(to, from, head_count, row_bytes);
  } else {
    result = streamed ? sum_staged<true>(to, from, head_count, row_bytes, stage_tokens)
                      : sum_staged<false>(to, from, head_count, row_bytes, stage_tokens);
  }
  if (streamed) stream_fence();
  return result;
}

}  // namespace kvc::kernels
