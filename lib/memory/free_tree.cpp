#include "memory/free_tree.h"

#include "base/check.h"

namespace kvc::memory {
namespace {

constexpr bool kBelow = false, kAbove = true;

/// One to one, so that no two pieces have the same.
uint32_t priority(uint32_t piece) {
  piece = (piece ^ piece >> 16) * 0x7FEB352Du;
  piece = (piece ^ piece >> 15) * 0x846CA68Bu;
  return piece ^ piece >> 16;
}

bool above(uint32_t piece, uint32_t other) { return priority(piece) > priority(other); }

}  // namespace

void FreeTree::insert(uint32_t piece) noexcept {
  const uint64_t key = key_of(piece);
  uint32_t *link = &root_;
  uint32_t at = root_;
  while (at != kNoPiece && above(at, piece)) {
    link = child(at, key_of(at) < key);
    at = FreeNodes::load(link);
  }
  FreeNodes::store(link, piece);
  // What was here is split at the key, into both sides of the piece.
  uint32_t *lower = child(piece, kBelow);
  uint32_t *higher = child(piece, kAbove);
  while (at != kNoPiece) {
    const bool side = key_of(at) < key ? kAbove : kBelow;
    uint32_t *&open = side == kAbove ? lower : higher;
    FreeNodes::store(open, at);
    open = child(at, side);
    at = FreeNodes::load(open);
  }
  FreeNodes::store(lower, kNoPiece);
  FreeNodes::store(higher, kNoPiece);
}

void FreeTree::erase(uint32_t piece) noexcept {
  const uint64_t key = key_of(piece);
  uint32_t *link = &root_;
  for (uint32_t at = root_; at != piece; at = FreeNodes::load(link)) {
    KVC_CHECK(at != kNoPiece);
    link = child(at, key_of(at) < key);
  }
  // Both sides become one in its place.
  uint32_t lower = FreeNodes::load(child(piece, kBelow));
  uint32_t higher = FreeNodes::load(child(piece, kAbove));
  while (lower != kNoPiece && higher != kNoPiece) {
    const bool side = above(lower, higher) ? kAbove : kBelow;
    uint32_t &top = side == kAbove ? lower : higher;
    FreeNodes::store(link, top);
    link = child(top, side);
    top = FreeNodes::load(link);
  }
  FreeNodes::store(link, lower != kNoPiece ? lower : higher);
}

FreeTree::Neighbours FreeTree::find(uint64_t key) const noexcept {
  Neighbours found;
  for (uint32_t at = root_; at != kNoPiece;) {
    const bool below = key_of(at) < key;
    (below ? found.below : found.from) = at;
    at = FreeNodes::load(child(at, below));
  }
  return found;
}

}  // namespace kvc::memory
