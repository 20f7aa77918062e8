#pragma once
#include <atomic>
#include <deque>
#include <memory_resource>
#include <vector>

#include "seq/index.h"

namespace kvc::store {

/// Reads of objects in flight.  A pin that is let go after a copy costs a locked instruction, which waits until all that was copied has reached memory.
/// A read notes its nodes here instead, under the store's lock, and says with one plain store that it is done.  Who is about to take nodes away
/// settles first: what is done is forgotten and its use recorded, what is not is pinned.
class Reads {
 public:
  static constexpr uint32_t item_max = 16;
  struct alignas(64) Read {
    std::atomic<bool> done{false};
    bool pinned = false;
    uint32_t count = 0;
    uint64_t tick = 0;   // of the first node's use; the next one's is one later
    uint64_t bytes = 0;  // the reader's own until it is done
    uint32_t ids[item_max];
  };

  explicit Reads(std::pmr::memory_resource *resource);

  /// All but end are called under the store's lock.  The nodes are the caller's to add.  Throws std::bad_alloc.
  Read &begin(seq::Index &index);
  static void end(Read &read) { read.done.store(true, std::memory_order_release); }
  /// Another node than noted: only the one with the right name is held.
  static void replace(Read &read, uint32_t item, seq::Ref right, seq::Index &index);
  void settle(seq::Index &index);
  /// Bytes of the reads that were settled.
  uint64_t settled_bytes() const { return settled_bytes_; }

 private:
  static constexpr uint32_t kCount = 64;  // few enough that their nodes are in the cache when they are settled, which is when none is free
  void add();

  std::pmr::deque<Read> reads_;
  std::pmr::vector<Read *> begun_, free_;
  uint64_t settled_bytes_ = 0;
};

}  // namespace kvc::store
