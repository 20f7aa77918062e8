#pragma once
#include <memory_resource>

#include "store/layout.h"

namespace kvc::store {

/// The layers and heads that a sequence writes and reads: all of its scope's shape, or those of a rank of an engine that splits layers (PP) or
/// heads (TP).  Inside of the store they count from 0.
struct Part {
  explicit Part(std::pmr::memory_resource *resource) : layout(resource), windows(resource), states(resource) {}

  seq::Shape shape;             // of these layers and heads alone; layer_count 0: objects only
  ChunkLayout layout;           // of main pieces
  ChunkLayout windows, states;  // of the others; without layers where the shape has none of their kind
  uint32_t window_max = 0;      // of its window layers; 0: it has none
  bool has_states = false;

  /// Are there layers whose rows stand beside the main pieces?
  bool pieced() const { return window_max || has_states; }
  const ChunkLayout &layout_of(Piece piece) const { return piece == Piece::main ? layout : piece == Piece::window ? windows : states; }
  const ChunkLayout &layout_of_layer(uint32_t layer) const { return layout_of(piece_of(layout.page(layer).layers->kind)); }
  uint64_t slot_bytes() const { return layout.slot_bytes() + windows.slot_bytes() + states.slot_bytes(); }
};

}  // namespace kvc::store
