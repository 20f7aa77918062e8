#pragma once
#include "store/slices.h"

namespace kvc::store {

/// Rows of a window or state layer while a call reads them.
struct Store::PieceUse {
  explicit PieceUse(Store &of) : store(of) {}
  PieceUse(const PieceUse &) = delete;
  PieceUse &operator=(const PieceUse &) = delete;
  ~PieceUse();

  Store &store;
  PieceRows rows() const { return {data, held}; }

  uint8_t *data = nullptr;
  OpenChunk *open = nullptr;  // whose own rows they are
  Ref held;                   // else the piece they lie in
  Ref pinned;                 // the same, if only this use holds it
};

}  // namespace kvc::store
