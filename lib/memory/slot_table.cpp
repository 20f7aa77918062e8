#include "memory/slot_table.h"

#include "base/check.h"

namespace kvc::memory {
namespace {

constexpr uint64_t kLiveBit = uint64_t{1} << 63;
constexpr uint32_t kClassShift = 40;
constexpr uint64_t kOffsetMask = (uint64_t{1} << kClassShift) - 1;
constexpr uint64_t kOffsetUnitBytes = 64;

}  // namespace

SlotTable::SlotTable(uint64_t slot_max, uint32_t first_generation, std::pmr::memory_resource &resource)
    : slot_max_(slot_max), first_generation_(first_generation), slots_(slot_max, resource) {
  KVC_CHECK(slot_max > 0 && slot_max < UINT32_MAX && first_generation != 0);
}

bool SlotTable::reserve() {
  if (first_free_ != 0) return true;
  if (used_count_ == slot_max_) return false;
  if (used_count_ == slots_.item_count()) slots_.grow();
  return true;
}

SlotId SlotTable::acquire(const Place &place) noexcept {
  uint32_t index = first_free_ - 1;
  if (first_free_ == 0) index = static_cast<uint32_t>(used_count_++);
  Slot &slot = slots_[index];
  uint32_t generation = slot.generation.load(std::memory_order_relaxed);
  if (generation == 0) {
    generation = first_generation_;
  } else {
    first_free_ = slot.detail.load(std::memory_order_relaxed);
  }
  KVC_CHECK(place.offset_bytes / kOffsetUnitBytes <= kOffsetMask && place.offset_bytes % kOffsetUnitBytes == 0);
  slot.detail.store(place.detail, std::memory_order_release);
  slot.place.store(kLiveBit | uint64_t{place.size_class} << kClassShift | place.offset_bytes / kOffsetUnitBytes, std::memory_order_release);
  slot.generation.store(generation, std::memory_order_release);
  return {index, generation};
}

Place SlotTable::release(SlotId id) noexcept {
  Place place;
  KVC_CHECK(find(id, place));
  Slot &slot = slots_[id.index];
  const uint32_t next = id.generation + 1;
  // The generation first: find() that sees any later store also sees this one (see there).
  slot.generation.store(next == 0 ? 1 : next, std::memory_order_relaxed);
  slot.place.store(0, std::memory_order_release);
  slot.detail.store(first_free_, std::memory_order_release);
  first_free_ = id.index + 1;
  return place;
}

/// A sequence lock by generation: `place` and `detail` are acquired between two reads of it.  Whoever reads a value stored after the slot was
/// given back synchronises with that store and so reads the new generation in the end.
bool SlotTable::find(SlotId id, Place &out) const noexcept {
  const Slot *slot = slots_.find(id.index);
  if (!slot || id.generation == 0 || slot->generation.load(std::memory_order_acquire) != id.generation) return false;
  const uint64_t place = slot->place.load(std::memory_order_acquire);
  const uint32_t detail = slot->detail.load(std::memory_order_acquire);
  if (slot->generation.load(std::memory_order_relaxed) != id.generation || !(place & kLiveBit)) return false;
  out.offset_bytes = (place & kOffsetMask) * kOffsetUnitBytes;
  out.size_class = static_cast<uint32_t>((place & ~kLiveBit) >> kClassShift);
  out.detail = detail;
  return true;
}

}  // namespace kvc::memory
