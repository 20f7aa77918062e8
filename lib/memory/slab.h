#pragma once
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "memory/arena.h"
#include "memory/resource.h"

namespace kvc::memory {

/// A slot by number and generation: an id of a slot that was given back reads as stale, never as somebody else's bytes.
struct SlotId {
  uint32_t index = 0;
  uint32_t generation = 0;  // 0: no slot
  friend bool operator==(const SlotId &, const SlotId &) = default;
};

/// Slots of any size out of one arena.  Sizes are rounded to classes: up to 32 KiB geometric (four a doubling, multiples of 64 B), carved
/// out of slabs; above, exact multiples of 4 KiB, each slot an extent of its own (best fit by address, coalesced when given back; an empty
/// slab goes back to the extents, so no class can starve another).  The waste is at most 1/8 in small slots and 4 KiB in large ones.
/// The number of slots has a hard limit fixed at open (bytes / 4 KiB + 1, at least 1024, or what fits 64 B slots: the implementer's choice, documented).
/// Threads: any; take and give hold one lock, data() is lock-free.
class Slab {
 public:
  /// zero_on_release: memory is zeroed in give() (KVC_OPEN_ZERO).
  [[nodiscard]] kvc_status open(const ArenaOptions &options, bool zero_on_release, Resource &resource, base::Error &error);
  Slab();
  ~Slab();

  /// FULL: no contiguous room for `bytes` now (the message says how much is free); the caller evicts and tries again.
  /// ARGUMENT: 0 bytes, or more than the arena could ever hold.  64-byte aligned (4 KiB for slots above 32 KiB).  Fault point "memory.slab.take" (gives FULL).
  [[nodiscard]] kvc_status take(SlotId *out, uint64_t bytes, base::Error &error);
  /// Stale ids are a bug of ours: KVC_CHECK.
  void give(SlotId id);

  /// nullptr when the slot was given back since.
  uint8_t *data(SlotId id) const;
  /// Bytes of the slot's class (>= what was asked for); 0 when stale.
  uint64_t bytes(SlotId id) const;

  uint64_t capacity_bytes() const;
  /// Bytes of live slots after rounding: what kvc_store_info.memory_used reports.
  uint64_t used_bytes() const;
  uint64_t slot_count() const;
  /// Largest request that take() would grant now.
  uint64_t largest_free_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvc::memory
