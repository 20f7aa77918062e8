#include <algorithm>
#include <cstring>

#include "store/append_plan.h"
#include "store/cut.h"
#include "store/piece_use.h"

/// Window rows of a sequence that keeps some of its positions: those that its windows see at the new length.
namespace kvc::store {

using base::fail;

/// Of a chunk that stays whole: what the sequence holds of it, or its piece.
kvc_status Store::keep_window(Cut &cut, const Sequence &from, uint64_t chunk, uint64_t count, std::span<const uint64_t> filled, Error &error) {
  std::lock_guard lock(mutex_);
  Ref piece;
  const PieceRows rows = window_rows(from, std::span<const Ref>(from.table->refs).first(from.held), chunk, &piece);
  if (!covers(from, rows, chunk, count, may_bring(from, chunk) ? filled : std::span<const uint64_t>()))
    return fail(error, KVC_ERR_GONE, "window rows of the chunk at token %llu, which are seen behind the kept positions, are no longer held", static_cast<unsigned long long>(chunk * from.chunk_tokens()));
  if (rows.slot) cut.windows.push_back({chunk, piece ? cut.hold(piece) : Pieces::find(from.pieces->windows, chunk)});
  return KVC_OK;
}

/// The rows of one chunk that come together, out of the chunks they were in: neighbours move together.
kvc_status Store::copy_window_kept(OpenChunk &to, const Sequence &made, const Sequence &from, std::span<const uint64_t> positions, uint64_t chunk, Error &error) {
  const ChunkLayout &layout = from.part->windows;
  const uint64_t chunk_tokens = from.chunk_tokens(), begin = chunk * chunk_tokens, end = std::min<uint64_t>(begin + chunk_tokens, positions.size());
  const auto seen_of = [&](uint32_t l) { return std::max(begin, window_begin(positions.size(), layout.page(l).layers->window)); };
  for (uint32_t l = 0; l < layout.layer_count(); l++)
    if (layout.page(l).present()) layout.mark(to.data, l) = static_cast<uint32_t>(seen_of(l) < std::min(end, made.filled[l]) ? seen_of(l) - begin : chunk_tokens);
  for (uint64_t i = std::max(begin, window_begin(positions.size(), from.part->window_max)); i < end;) {
    const uint64_t source = positions[i] / chunk_tokens;
    uint64_t next = i + 1;
    while (next < end && positions[next] == positions[next - 1] + 1 && positions[next] / chunk_tokens == source) next++;
    PieceUse use(*this);
    for (uint32_t l = 0; l < layout.layer_count(); l++) {
      if (!layout.page(l).present()) continue;
      const uint64_t first = std::max(i, seen_of(l)), stop = std::min(next, made.filled[l]);
      if (first >= stop) continue;
      const uint64_t row = positions[first] % chunk_tokens;
      if (!use.data) {
        KVC_TRY(use_piece(use, from, Piece::window, source, error));
        if (use.held) KVC_TRY(check_chunk(from, use.held, source * chunk_tokens, error));
      }
      if (left_out(from, use.rows(), l) > row)
        return fail(error, KVC_ERR_GONE, "layer %u: the row of token %llu, which its window sees behind the kept positions, was left out", l + from.part->layer_begin, static_cast<unsigned long long>(positions[first]));
      for (const SideKind kind : {SideKind::k, SideKind::v}) {
        const kernels::PageSide out = layout.side(to.data, l, kind);
        const uint64_t row_bytes = uint64_t{out.dim} * kernels::dtype_bytes(out.dtype), head_bytes = row_bytes * out.page_tokens;
        for (uint32_t h = 0; h < layout.page(l).layers->kv_heads; h++)
          std::memcpy(out.data + h * head_bytes + (first - begin) * row_bytes, head_rows(from, use.held, use.data, l, kind, h) + row * row_bytes, (stop - first) * row_bytes);
      }
    }
    i = next;
  }
  return KVC_OK;
}

kvc_status Store::compact_windows(Sequence &made, const Sequence &from, std::span<const uint64_t> positions, uint64_t shared, PiecePlan &plan, Error &error) {
  const uint64_t chunk_tokens = from.chunk_tokens(), count = positions.size(), seen = window_begin(count, from.part->window_max) / chunk_tokens;
  const uint64_t chunks = (count + chunk_tokens - 1) / chunk_tokens, complete = count / chunk_tokens;
  const ChunkLayout &layout = from.part->windows;
  Cut cut(*this, count);
  for (uint64_t c = seen; c < chunks; c++) {
    cut.windows.reserve(cut.windows.size() + 1);
    cut.made.reserve(cut.made.size() + 1);
    if (c < shared) {
      KVC_TRY(keep_window(cut, from, c, count, made.filled, error));
      continue;
    }
    OpenChunk *rows;
    KVC_TRY(open_slot(&rows, made, layout, error));
    cut.made.push_back(rows);
    KVC_TRY(copy_window_kept(*rows, made, from, positions, c, error));
    cut.windows.push_back({c, rows});
    plan.nodes += c < complete;
  }
  std::erase_if(made.pieces->pending, [&](uint64_t chunk) { return chunk >= shared; });
  made.pieces->pending.reserve(made.pieces->pending.size() + complete);
  std::lock_guard lock(mutex_);
  index_->reserve(plan.nodes, made.scope->id);
  plan.nodes_reserved = plan.nodes;
  apply_cut(cut, made);
  return KVC_OK;
}

}  // namespace kvc::store
