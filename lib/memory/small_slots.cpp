#include "memory/small_slots.h"

#include <bit>

#include "base/check.h"

namespace kvc::memory {

SmallSlots::SmallSlots(Extents &extents, uint64_t arena_bytes, std::pmr::memory_resource &resource)
    : extents_(extents), slabs_(arena_bytes / kUnitBytes, resource) {
  for (uint32_t size_class = 0; size_class < kClassCount; ++size_class) {
    slab_units_[size_class] = slab_units(size_class, arena_bytes);
    KVC_CHECK(slab_units_[size_class] * kUnitBytes / class_bytes(size_class) <= kWordCount * 64);
  }
}

void SmallSlots::reserve() {
  // A slab has a unit at least, so there is a record for as many slabs as fit.
  if (unused_slab_ == 0 && slab_count_ == slabs_.item_count() && slabs_.can_grow()) slabs_.grow();
}

void SmallSlots::link(uint32_t index) noexcept {
  Slab &slab = slabs_[index];
  uint32_t &head = with_room_[slab.size_class];
  slab.previous = 0;
  slab.next = head;
  if (head != 0) slabs_[head - 1].previous = index + 1;
  head = index + 1;
  classes_with_room_ |= uint64_t{1} << slab.size_class;
}

void SmallSlots::unlink(uint32_t index) noexcept {
  const Slab &slab = slabs_[index];
  if (slab.next != 0) slabs_[slab.next - 1].previous = slab.previous;
  if (slab.previous != 0) {
    slabs_[slab.previous - 1].next = slab.next;
    return;
  }
  with_room_[slab.size_class] = slab.next;
  if (slab.next == 0) classes_with_room_ &= ~(uint64_t{1} << slab.size_class);
}

/// Slabs are cut off the high end of a piece and large slots off the low end: small ones that live long do not split the room of large ones.
bool SmallSlots::carve(uint32_t size_class) noexcept {
  const uint64_t slot_bytes = class_bytes(size_class);
  uint32_t units = slab_units_[size_class];
  uint32_t begin = 0;
  if (!extents_.take(&begin, units, Extents::End::kHigh)) {
    units = static_cast<uint32_t>((slot_bytes + kUnitBytes - 1) / kUnitBytes);
    if (!extents_.take(&begin, units, Extents::End::kHigh)) return false;
  }
  uint32_t index = unused_slab_ - 1;
  if (unused_slab_ == 0) {
    index = static_cast<uint32_t>(slab_count_++);
  } else {
    unused_slab_ = slabs_[index].next;
  }
  Slab &slab = slabs_[index];
  slab = Slab{};
  slab.begin_unit = begin;
  slab.unit_count = units;
  slab.slot_count = static_cast<uint32_t>(units * kUnitBytes / slot_bytes);
  slab.size_class = size_class;
  for (uint32_t slot = 0; slot < slab.slot_count; slot += 64) {
    const uint32_t left = slab.slot_count - slot;
    slab.free_slots[slot / 64] = left >= 64 ? UINT64_MAX : (uint64_t{1} << left) - 1;
    slab.free_words |= 1u << (slot / 64);
  }
  link(index);
  return true;
}

bool SmallSlots::take(uint32_t *size_class, uint64_t *offset_bytes, uint32_t *slab_index) noexcept {
  if (with_room_[*size_class] == 0 && !carve(*size_class)) {
    const uint64_t larger = classes_with_room_ >> *size_class;
    if (larger == 0) return false;
    *size_class += static_cast<uint32_t>(std::countr_zero(larger));
  }
  const uint32_t index = with_room_[*size_class] - 1;
  Slab &slab = slabs_[index];
  const auto word = static_cast<uint32_t>(std::countr_zero(slab.free_words));
  const auto bit = static_cast<uint32_t>(std::countr_zero(slab.free_slots[word]));
  slab.free_slots[word] &= slab.free_slots[word] - 1;
  if (slab.free_slots[word] == 0) slab.free_words &= ~(1u << word);
  ++slab.live_count;
  if (slab.live_count == slab.slot_count) unlink(index);
  *offset_bytes = slab.begin_unit * kUnitBytes + (word * 64 + bit) * class_bytes(*size_class);
  *slab_index = index;
  return true;
}

void SmallSlots::give(uint32_t index, uint64_t offset_bytes) noexcept {
  Slab &slab = slabs_[index];
  const uint64_t slot_bytes = class_bytes(slab.size_class);
  const uint64_t inside_bytes = offset_bytes - slab.begin_unit * kUnitBytes;
  const auto slot = static_cast<uint32_t>(inside_bytes / slot_bytes);
  KVC_CHECK(inside_bytes % slot_bytes == 0 && slot < slab.slot_count && !(slab.free_slots[slot / 64] >> (slot % 64) & 1));
  if (slab.live_count == slab.slot_count) link(index);
  slab.free_slots[slot / 64] |= uint64_t{1} << (slot % 64);
  slab.free_words |= 1u << (slot / 64);
  --slab.live_count;
  if (slab.live_count > 0) return;
  unlink(index);
  extents_.give(slab.begin_unit, slab.unit_count);
  slab.next = unused_slab_;
  unused_slab_ = index + 1;
}

uint64_t SmallSlots::largest_free_bytes() const {
  return classes_with_room_ == 0 ? 0 : class_bytes(static_cast<uint32_t>(std::bit_width(classes_with_room_)) - 1);
}

}  // namespace kvc::memory
