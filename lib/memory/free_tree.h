#pragma once
#include <cstdint>

#include "memory/poison.h"
#include "memory/size_class.h"

namespace kvc::memory {

/// A free piece goes by the number of its first unit; this is none.
constexpr uint32_t kNoPiece = UINT32_MAX;

/// What is known of free pieces of an arena lies in their own first bytes, so live ones cost nothing and nothing is ever allocated.
/// One piece at a time, the bare one, has its node here instead: it is the memory that was never used yet, which stays untouched.
/// Nodes are poisoned as the rest of the piece is: only load() and store() may touch them.
class FreeNodes {
 public:
  explicit FreeNodes(uint8_t *data) : data_(data) {}
  FreeNodes(const FreeNodes &) = delete;
  FreeNodes &operator=(const FreeNodes &) = delete;

  uint32_t *units(uint32_t piece) const { return words(piece); }
  /// `tree` 0 or 1; `side` 0: below, 1: above.
  uint32_t *child(uint32_t piece, uint32_t tree, bool side) const { return words(piece) + 1 + 2 * tree + side; }
  /// The bytes of a node read as zero again, as fresh and zeroed memory does.
  void clear(uint32_t piece) const {
    for (uint32_t word = 0; word < kWordCount; ++word) store(words(piece) + word, 0);
  }

  uint32_t bare() const { return bare_; }
  /// While neither the old nor the new one is in a tree.
  void set_bare(uint32_t piece) { bare_ = piece; }

  KVC_TOUCHES_POISON static uint32_t load(const uint32_t *word) { return *word; }
  KVC_TOUCHES_POISON static void store(uint32_t *word, uint32_t value) { *word = value; }

 private:
  static constexpr uint32_t kWordCount = 5;
  uint32_t *words(uint32_t piece) const {
    if (piece == bare_) return bare_words_;
    return reinterpret_cast<uint32_t *>(data_ + piece * kUnitBytes);
  }

  uint8_t *const data_;
  uint32_t bare_ = kNoPiece;
  mutable uint32_t bare_words_[kWordCount];
};

/// An ordered set of free pieces without memory of its own: a treap whose priorities are hashes of the begins.
/// Everything is O(log n) expected.  Not thread-safe.
class FreeTree {
 public:
  enum class Order : uint32_t { kBegin, kSize };
  FreeTree(const FreeNodes &nodes, Order order) : nodes_(nodes), order_(order) {}

  /// In the order of size, the begin decides among equals.
  static uint64_t size_key(uint32_t units, uint32_t begin) { return uint64_t{units} << 32 | begin; }

  void insert(uint32_t piece) noexcept;
  /// A piece that is not there is a bug: KVC_CHECK.
  void erase(uint32_t piece) noexcept;

  struct Neighbours {
    uint32_t below = kNoPiece;  // the last one whose key is below the one asked for
    uint32_t from = kNoPiece;   // the first one whose key is not
  };
  Neighbours find(uint64_t key) const noexcept;

 private:
  uint64_t key_of(uint32_t piece) const {
    return order_ == Order::kBegin ? piece : size_key(FreeNodes::load(nodes_.units(piece)), piece);
  }
  uint32_t *child(uint32_t piece, bool side) const { return nodes_.child(piece, static_cast<uint32_t>(order_), side); }

  const FreeNodes &nodes_;
  const Order order_;
  uint32_t root_ = kNoPiece;
};

}  // namespace kvc::memory
