#pragma once
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "memory/arena.h"
#include "memory/resource.h"
#include "memory/slot_table.h"

namespace kvc::memory {

/// Slots of any size out of one arena.  Sizes are rounded to classes: up to 32 KiB multiples of 64 B, eight a doubling, carved out of slabs
/// (64 KiB and a little more; less in small arenas); above, exact multiples of 4 KiB, each slot an extent of its own (best fit, the lowest
/// address among equals, coalesced when given back).  An empty slab goes back to the extents, so no class can starve another.
/// The waste of rounding is below 1/8 (or 64 B) in small slots and below 4 KiB in large ones; the unused tail of a slab is at most 1/16 of it.
/// Only when no extent is left for a slab, a small slot may be one of a larger class, or its slab a smaller one, rather than FULL.
/// The number of slots has a hard limit fixed at open: bytes / 64 + 1, so that it is never met before the arena is full, below 2^32 - 1.
/// Bookkeeping comes from the resource: 16 bytes a slot and 160 a slab; it follows the largest number of slots there ever was.  What is known
/// of a free extent lies in its own first bytes; memory that was never part of a slot is not touched.
/// Under AddressSanitizer the memory of no slot is poisoned (in arenas above 1 GiB: once it has been a slot), so a stale read is reported.
/// Threads: any; take and give hold one lock, data() and bytes() are lock-free.
class Slab {
 public:
  Slab();
  ~Slab();
  Slab(const Slab &) = delete;
  Slab &operator=(const Slab &) = delete;

  /// Once per slab.  zero_on_release: memory is zeroed in give() (KVC_OPEN_ZERO).  `resource` outlives the slab.
  /// What Arena::open says; NO_MEMORY when the resource refuses.
  [[nodiscard]] kvc_status open(const ArenaOptions &options, bool zero_on_release, Resource &resource, base::Error &error);

  /// FULL: no contiguous room for `bytes` now; the caller evicts and tries again, thousands of times a second, so that it has no message.
  /// NO_MEMORY: no room for the bookkeeping.
  /// ARGUMENT: 0 bytes, or more than the arena could ever hold.
  /// 64-byte aligned (4 KiB for slots above 32 KiB).  Fault point "memory.slab.take" (gives FULL).  A failed call changes nothing, `*out` included.
  [[nodiscard]] kvc_status take(SlotId *out, uint64_t bytes, base::Error &error);
  /// Never fails and never allocates.  Stale ids are a bug of ours: KVC_CHECK.
  void give(SlotId id);

  /// nullptr when the slot was given back since.
  uint8_t *data(SlotId id) const;
  /// Bytes of the slot's class (>= what was asked for); 0 when stale.
  uint64_t bytes(SlotId id) const;

  /// What a slot of so many bytes takes, unless only one of a larger class was left.
  static uint64_t rounded_bytes(uint64_t bytes);
  uint64_t capacity_bytes() const;
  /// Bytes of live slots after rounding: what kvc_store_info.memory_used reports.
  uint64_t used_bytes() const;
  /// Largest request that take() would grant now; it grants every smaller one too.
  uint64_t largest_free_bytes() const;

 private:
  struct Impl;
  struct Deleter {
    void operator()(Impl *impl) const;
  };
  std::unique_ptr<Impl, Deleter> impl_;
};

}  // namespace kvc::memory
