#pragma once
#include "store/store.h"

namespace kvc::store {

/// Where a head's rows of one layer lie in a held chunk: the slot, and layer and head by their numbers in the part that it is of.
struct SlicePage {
  const Part *part = nullptr;  // null: they are not there
  uint8_t *slot = nullptr;
  uint32_t layer = 0, head = 0;
  uint32_t head_count = 0;   // that follow there, this one included
  uint32_t layer_count = 0;  // for which the same holds, this one included

  kernels::PageSide side(SideKind kind) const { return part->layout.side(slot, layer, kind); }
};

/// Calls `act(part, slot)` for each slot of a held chunk's main piece: the one of all of the shape, or those of its parts.
template <typename Do>
void each_slice(const Scope &scope, const seq::Node &node, Do &&act) {
  auto *const data = reinterpret_cast<uint8_t *>(node.payload);
  if (!(seq::flags_of(node) & seq::node_sliced)) return act(static_cast<const Part &>(scope), data);
  for (const Slice *slice = Slice::in(data); slice; slice = slice->next.load(std::memory_order_acquire)) act(*slice->part, slice->data());
}

/// The count of the token ids kept with a held chunk, and the ids.
const int32_t *chunk_ids(const Scope &scope, const seq::Node &node);

/// `layer` and `head` are the model's.
SlicePage page_in(const Scope &scope, const seq::Node &node, uint32_t layer, uint32_t head);

}  // namespace kvc::store
