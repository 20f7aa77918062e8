#pragma once
#include <algorithm>
#include <memory>

#include "store/store.h"

namespace kvc::store {

/// Where a head's rows of one layer lie in a held chunk: the slot, and layer and head by their numbers in the part that it is of.
struct SlicePage {
  const Part *part = nullptr;  // null: they are not there
  uint8_t *slot = nullptr;
  uint32_t layer = 0, head = 0;
  uint32_t head_count = 0;   // that follow there, this one included
  uint32_t layer_count = 0;  // for which the same holds, this one included
  uint32_t left_out = 0;     // rows in front that are not there: of window rows and snapshots (rows_none: nothing is)

  kernels::PageSide side(SideKind kind) const { return part->layout_of_layer(layer).side(slot, layer, kind); }
};
constexpr uint32_t rows_none = UINT32_MAX;

/// Window rows or a snapshot: a sequence's own, in a slot laid out for its part, or those of a piece that is held.
struct PieceRows {
  uint8_t *slot = nullptr;  // null: there are none
  Ref held;
};

inline Piece kind_of(const seq::Node &node) {
  const uint32_t flags = seq::flags_of(node);
  return flags & seq::node_window ? Piece::window : flags & seq::node_state ? Piece::state : Piece::main;
}

/// Rows in front of a page beside the main piece that are not there, as its mark says.
inline uint32_t left_out_of(const ChunkLayout &layout, uint8_t *slot, uint32_t layer) {
  const uint32_t mark = layout.mark(slot, layer);
  if (layout.page(layer).layers->kind == KVC_LAYER_STATE) return mark ? 0 : rows_none;
  return mark < layout.chunk_tokens() ? mark : rows_none;
}

/// Calls `act(part, slot)` for each slot of a held chunk's piece: the one of all of the shape, or those of its parts.
template <typename Do>
void each_slice(const Scope &scope, const seq::Node &node, Do &&act) {
  auto *const data = reinterpret_cast<uint8_t *>(node.payload);
  if (!(seq::flags_of(node) & seq::node_sliced)) return act(static_cast<const Part &>(scope), data);
  for (const Slice *slice = Slice::in(data); slice; slice = slice->next.load(std::memory_order_acquire)) act(*slice->part, slice->data());
}

inline void begin_slice(uint8_t *slot_data, const Part &part, memory::SlotId slot, const uint8_t *write_id) {
  auto *slice = std::construct_at(Slice::in(slot_data));
  slice->part = &part;
  slice->slot = slot;
  std::copy_n(write_id, write_id_bytes, slice->write_id);
}

/// The count of the token ids kept with a held chunk, and the ids.
const int32_t *chunk_ids(const Scope &scope, const seq::Node &node);

/// Who wrote a held chunk of a model with window or state layers, or in parts.
const uint8_t *chunk_write_id(const Scope &scope, const seq::Node &node);

/// `layer` and `head` are the model's.  Of several such pages beside a main piece that which has most rows.
SlicePage page_in(const Scope &scope, const seq::Node &node, uint32_t layer, uint32_t head);

}  // namespace kvc::store
