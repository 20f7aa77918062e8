#include <algorithm>
#include <cstring>

#include "store/page_sums.h"
#include "store/slices.h"

/// Window rows and snapshots wherever they lie: in a sequence's own slot, in a piece of all of the shape, or in those of its parts.
namespace kvc::store {

namespace {

/// Rows in front of a layer's page in a piece that are not there, of whichever of these heads most are missing.  All by their numbers in the model.
uint32_t most_left_out(const Scope &scope, const seq::Node &node, uint32_t layer, uint32_t head_begin, uint32_t head_end) {
  uint32_t most = 0;
  for (uint32_t head = head_begin; head < head_end;) {
    const SlicePage page = page_in(scope, node, layer, head);
    if (!page.part) return rows_none;
    most = std::max(most, page.left_out);
    head += page.head_count;
  }
  return most;
}

}  // namespace

/// Under a pin, or the lock.
PieceRows Store::rows_of(Ref piece) const { return index_->held(piece) ? PieceRows{slot_data(index_->node(piece)), piece} : PieceRows{}; }

/// What an entry has; none when it is gone.
PieceRows Store::rows_of(const OpenChunk *rows) const {
  if (rows && rows->own()) return {rows->data, {}};
  return rows && !rows->gone ? rows_of(rows->held) : PieceRows{};
}

/// Rows in front of a layer's page that are not there, of whichever of these heads most are missing (count 0: of all in the part); rows_none: nothing is.
uint32_t Store::left_out(const Sequence &seq, PieceRows rows, uint32_t layer, uint32_t head_begin, uint32_t head_count) const {
  if (!rows.slot) return rows_none;
  if (!rows.held || !is_sliced(seq, rows.held)) return left_out_of(seq.part->layout_of_layer(layer), rows.slot, layer);
  const seq::Node &node = index_->node(rows.held);
  const uint32_t flags = seq::flags_of(node);
  if ((flags & seq::node_sliced) && !(flags & seq::node_partial)) return 0;
  const uint32_t first = seq.part->head_begin_of(layer) + head_begin;
  return most_left_out(*seq.scope, node, layer + seq.part->layer_begin, first, first + (head_count ? head_count : seq.part->shape.run_of(layer).kv_heads));
}

/// Of a piece in parts: once every row of every layer is there, nobody looks for them any more.  Under the lock.
void Store::note_complete(const Scope &scope, Ref piece) {
  const seq::Node &node = index_->node(piece);
  const ChunkLayout &layout = scope.layout_of(kind_of(node));
  for (uint32_t l = 0; l < layout.layer_count(); l++)
    if (layout.page(l).present() && most_left_out(scope, node, l, 0, layout.page(l).layers->kv_heads)) return;
  index_->complete(piece);
}

/// Are the snapshots of all of the part's state layers there?
bool Store::snapshot_whole(const Sequence &seq, PieceRows rows) const {
  const ChunkLayout &layout = seq.part->states;
  for (uint32_t l = 0; l < layout.layer_count(); l++)
    if (layout.page(l).present() && left_out(seq, rows, l)) return false;
  return true;
}

/// The piece's bytes in a slot of the sequence's own, as far as its part goes.
void Store::copy_piece_rows(uint8_t *to, const Sequence &seq, const ChunkLayout &layout, PieceRows from) {
  if (!from.held || !is_sliced(seq, from.held)) {
    std::memcpy(to, from.slot, layout.slot_bytes());
    return;
  }
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    if (!layout.page(l).present()) continue;
    const uint32_t missing = left_out(seq, from, l);
    const bool state = layout.page(l).layers->kind == KVC_LAYER_STATE;
    layout.mark(to, l) = state ? missing == 0 : std::min(missing, layout.chunk_tokens());
    if (missing == rows_none) continue;
    for (const SideKind kind : {SideKind::k, SideKind::v}) {
      const kernels::PageSide side = layout.side(to, l, kind);
      const uint64_t head_bytes = uint64_t{side.dim} * side.page_tokens * kernels::dtype_bytes(side.dtype);
      for (uint32_t h = 0; h < layout.page(l).layers->kv_heads; h++) std::memcpy(side.data + h * head_bytes, head_rows(seq, from.held, from.slot, l, kind, h), head_bytes);
    }
  }
}

/// Has the sequence's slot a page that the piece has nothing of?  `shared_held`: and are the pages that are in every part as good there?
bool Store::brings_pages(const Sequence &seq, const ChunkLayout &layout, uint8_t *slot, PieceRows held, bool *shared_held) const {
  bool brings = false;
  *shared_held = true;
  for (uint32_t l = 0; l < layout.layer_count(); l++) {
    if (!layout.page(l).present()) continue;
    const uint32_t own = left_out_of(layout, slot, l), there = left_out(seq, held, l);
    brings = brings || (own != rows_none && there == rows_none);
    if (seq.part->split && !seq.part->split->layout_of_layer(l).page(l).present()) *shared_held = *shared_held && there <= own;
  }
  return brings;
}

/// A piece of the chunk is held already, of the same writer: a fork's, or one of other parts.  The sequence's rows
/// - join it, where they have pages that it lacks;
/// - stay the sequence's own, where it sees more of them than are held;
/// - give way to it otherwise.  Under the lock.
void Store::join_piece(Sequence &seq, OpenChunk &rows, Piece piece, uint64_t chunk, Ref held) {
  const PieceRows there = rows_of(held);
  const bool in_parts = !seq.part->is_whole() && (index_->node(held).flags & seq::node_sliced);
  bool shared_held = false;
  if (in_parts && brings_pages(seq, seq.part->layout_of(piece), rows.data, there, &shared_held)) {
    join_slice(rows, held, *seq.scope, shared_held);
    note_complete(*seq.scope, held);
  } else if (piece == Piece::window ? !covers(seq, there, chunk, seq.length, {}) : !snapshot_whole(seq, there)) {
    const ChunkLayout &layout = seq.part->layout_of(piece);
    for (uint32_t l = 0; l < layout.layer_count(); l++)
      if (layout.page(l).present()) page_sums(rows.data, layout, l)->valid = 0;  // its headers stand there now
    return;
  } else {
    open_bytes_.fetch_sub(slab_.bytes(rows.slot), std::memory_order_relaxed);
    slab_.give(rows.slot);
    rows.slot = {};
  }
  index_->pin(held);
  rows.held = held;
  rows.quota.end();
}

}  // namespace kvc::store
