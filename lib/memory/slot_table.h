#pragma once
#include <atomic>
#include <cstdint>
#include <memory_resource>

#include "memory/chunked.h"

namespace kvc::memory {

/// A slot by number and generation: an id of a slot that was given back reads as stale, never as somebody else's bytes.
struct SlotId {
  uint32_t index = 0;
  uint32_t generation = 0;  // 0: no slot
  friend bool operator==(const SlotId &, const SlotId &) = default;
};

/// Where a slot lies and how large it is.
struct Place {
  uint64_t offset_bytes = 0;  // multiple of 64, below 2^46
  uint32_t size_class = 0;    // kLargeClass: an extent of its own
  uint32_t detail = 0;        // number of the slab, or units of 4 KiB of a large slot
};

/// Descriptors of slots, 16 bytes each, made 4,096 at a time and kept until the end.  find() is lock-free; the rest is one thread at a time.
class SlotTable {
 public:
  /// `first_generation` is what a slot never used before starts with; generations wrap around and skip 0.
  SlotTable(uint64_t slot_max, uint32_t first_generation, std::pmr::memory_resource &resource);

  /// Makes the next acquire() sure to succeed.  False: all `slot_max` are in use.  Throws std::bad_alloc, nothing changed.
  [[nodiscard]] bool reserve();
  /// After reserve() only.
  SlotId acquire(const Place &place) noexcept;
  /// Makes the id stale and returns where it was.  A stale id is a bug: KVC_CHECK.
  Place release(SlotId id) noexcept;
  /// False when the id is stale.
  bool find(SlotId id, Place &out) const noexcept;

  uint64_t slot_max() const { return slot_max_; }

 private:
  struct Slot {
    std::atomic<uint32_t> generation{0};  // 0: never used
    std::atomic<uint32_t> detail{0};      // of a free slot: the next free one + 1
    std::atomic<uint64_t> place{0};       // offset / 64 | class << 40 | live << 63
  };
  static_assert(sizeof(Slot) == 16);

  const uint64_t slot_max_;
  const uint32_t first_generation_;
  ChunkedTable<Slot, 4096> slots_;
  uint64_t used_count_ = 0;  // slots [0, used_count_) were used before
  uint32_t first_free_ = 0;  // index + 1; 0: none
};

}  // namespace kvc::memory
