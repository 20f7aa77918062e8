#pragma once
#include <atomic>
#include <memory_resource>

#include "memory/slot_table.h"
#include "store/layout.h"

namespace kvc::store {

struct PartRange {
  uint32_t layer_begin, layer_count, head_begin, head_count;  // counts 0: all
  friend bool operator==(const PartRange &, const PartRange &) = default;
};

/// The layers and heads that a sequence writes and reads: all of its scope's shape, or those of a rank of an engine that splits layers (PP) or
/// heads (TP).  Inside of the store they count from 0.  A layer with one KV head (latent ones always) is in every part whole.
struct Part {
  explicit Part(std::pmr::memory_resource *resource) : layout(resource), windows(resource), states(resource) {}

  seq::Shape shape;             // of these layers and heads alone; layer_count 0: objects only
  ChunkLayout layout;           // of main pieces
  ChunkLayout windows, states;  // of the others; without layers where the shape has none of their kind
  uint32_t window_max = 0;      // of its window layers; 0: it has none
  bool has_states = false;
  const seq::Shape *model = nullptr;  // null: the part is all of it
  uint32_t layer_begin = 0, head_begin = 0, head_count = 0;  // in the model; head_count 0: all
  bool has_all_main = false;    // has it all layers and heads that decide how long a prefix is?
  const Part *split = nullptr;  // the same without the layers that are in every part, for who need not store them; null: it has none, or nothing else

  bool is_whole() const { return !model; }
  PartRange range() const { return is_whole() ? PartRange{} : PartRange{layer_begin, shape.layer_count, head_begin, head_count}; }
  /// Of every kind of layer that the shape has.  `head_bytes`: in front of the pages in each slot.
  void init_layouts(uint64_t head_bytes);
  uint32_t layer_end() const { return layer_begin + shape.layer_count; }
  /// Of a layer, by its number in the part: the model's head that is its first one here.
  uint32_t head_begin_of(uint32_t layer) const { return !model || model->run_of(layer_begin + layer).kv_heads == 1 ? 0 : head_begin; }

  /// Are there layers whose rows stand beside the main pieces?
  bool pieced() const { return window_max || has_states; }
  const ChunkLayout &layout_of(Piece piece) const { return piece == Piece::main ? layout : piece == Piece::window ? windows : states; }
  const ChunkLayout &layout_of_layer(uint32_t layer) const { return layout_of(piece_of(layout.page(layer).layers->kind)); }
  uint64_t slot_bytes() const { return layout.slot_bytes() + windows.slot_bytes() + states.slot_bytes(); }
};

/// What stands in front of the pages in a slot of a part that is not all of the shape.  The slots of one chunk, or of one piece beside it, all of one
/// write id, are a list that begins in its node and only grows: who holds the node reads it without a lock.
struct alignas(64) Slice {
  const Part *part;
  std::atomic<Slice *> next{nullptr};
  memory::SlotId slot;  // its own
  uint8_t write_id[write_id_bytes];

  static const Slice *in(const uint8_t *slot_data) { return reinterpret_cast<const Slice *>(slot_data); }
  static Slice *in(uint8_t *slot_data) { return reinterpret_cast<Slice *>(slot_data); }
  uint8_t *data() const { return reinterpret_cast<uint8_t *>(const_cast<Slice *>(this)); }
};
static_assert(sizeof(Slice) == 64);

constexpr uint32_t parts_max = 1024;  // different ones of a scope

/// The range without defaults, heads 0 where all are meant.  ARGUMENT, RANGE.
[[nodiscard]] kvc_status complete_range(PartRange &range, const seq::Shape &model, base::Error &error);
/// Of a complete range.
seq::Shape shape_of_part(const PartRange &range, const seq::Shape &model);
/// The same, of a range that is not all there is.
void init_part(Part &out, const PartRange &range, const seq::Shape &model);
/// Its `split`, of the layers that heads split; false when there is no need for one.
bool init_split(Part &out, const Part &part);

}  // namespace kvc::store
