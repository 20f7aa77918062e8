#include "memory/slab.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <memory_resource>
#include <mutex>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/fault.h"
#include "memory/extent.h"
#include "memory/poison.h"
#include "memory/size_class.h"
#include "memory/small_slots.h"

namespace kvc::memory {
namespace {

// The sanitizer's shadow of what is poisoned is an eighth of it and resident.
constexpr uint64_t kPoisonAtOpenBytesMax = uint64_t{1} << 30;

uint64_t slot_bytes(const Place &place) {
  return place.size_class == kLargeClass ? place.detail * kUnitBytes : class_bytes(place.size_class);
}

/// The bookkeeping of an arena.
struct Books {
  Books(const Arena &arena, Resource &resource)
      : slots(std::min<uint64_t>(arena.bytes() / 64 + 1, UINT32_MAX - 1), 1, resource),
        extents(arena.data(), static_cast<uint32_t>(arena.bytes() / kUnitBytes)),
        small(extents, arena.bytes(), resource) {}

  SlotTable slots;
  Extents extents;
  SmallSlots small;
  uint64_t used_bytes = 0;

  uint64_t largest_free_bytes() const { return std::max(extents.largest_units() * kUnitBytes, small.largest_free_bytes()); }

  /// All that may throw, so that nothing after it does.  False: no slot is left.
  bool reserve() {
    if (!slots.reserve()) return false;
    small.reserve();
    return true;
  }

  bool place(uint64_t bytes, Place *out) noexcept {
    if (bytes <= kSmallBytesMax) {
      out->size_class = class_of(bytes);
      return small.take(&out->size_class, &out->offset_bytes, &out->detail);
    }
    uint32_t begin = 0;
    out->size_class = kLargeClass;
    out->detail = static_cast<uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
    if (!extents.take(&begin, out->detail, Extents::End::kLow)) return false;
    out->offset_bytes = begin * kUnitBytes;
    return true;
  }
};

}  // namespace

struct Slab::Impl {
  Impl(bool zero, Resource &from) : zero_on_release(zero), resource(from) {}
  ~Impl() { unpoison(arena.data(), arena.bytes()); }

  const bool zero_on_release;
  Resource &resource;
  Arena arena;
  mutable std::mutex mutex;  // of the books; SlotTable::find needs none
  std::optional<Books> books;
};

void Slab::Deleter::operator()(Impl *impl) const {
  std::pmr::polymorphic_allocator<> allocator(&impl->resource);
  allocator.delete_object(impl);
}

Slab::Slab() = default;
Slab::~Slab() = default;

kvc_status Slab::open(const ArenaOptions &options, bool zero_on_release, Resource &resource, base::Error &error) {
  KVC_CHECK(!impl_);
  try {
    std::pmr::polymorphic_allocator<> allocator(&resource);
    std::unique_ptr<Impl, Deleter> impl(allocator.new_object<Impl>(zero_on_release, resource));
    KVC_TRY(impl->arena.open(options, error));
    impl->books.emplace(impl->arena, resource);
    if (impl->arena.bytes() <= kPoisonAtOpenBytesMax) poison(impl->arena.data(), impl->arena.bytes());
    impl_ = std::move(impl);
    return KVC_OK;
  } catch (const std::bad_alloc &) {
    return base::fail(error, KVC_ERR_NO_MEMORY, "memory_bytes %" PRIu64 ": no memory to keep its books", options.bytes);
  }
}

kvc_status Slab::take(SlotId *out, uint64_t bytes, base::Error &error) {
  const uint64_t capacity = impl_->arena.bytes();
  if (bytes == 0 || bytes > capacity) {
    return base::fail(error, KVC_ERR_ARGUMENT, "slot of %" PRIu64 " bytes: the arena holds from 1 to %" PRIu64, bytes, capacity);
  }
  if (KVC_FAULT("memory.slab.take")) return KVC_ERR_FULL;
  Place place;
  Books &books = *impl_->books;
  const std::lock_guard lock(impl_->mutex);
  try {
    if (!books.reserve()) return KVC_ERR_FULL;
  } catch (const std::bad_alloc &) {
    return base::fail(error, KVC_ERR_NO_MEMORY, "slot of %" PRIu64 " bytes: no memory to keep its books", bytes);
  }
  if (!books.place(bytes, &place)) return KVC_ERR_FULL;
  books.used_bytes += slot_bytes(place);
  unpoison(impl_->arena.data() + place.offset_bytes, slot_bytes(place));
  *out = books.slots.acquire(place);
  return KVC_OK;
}

void Slab::give(SlotId id) {
  Place place;
  Books &books = *impl_->books;
  KVC_CHECK(books.slots.find(id, place));
  uint8_t *data = impl_->arena.data() + place.offset_bytes;
  // The slot is still the caller's, so the books need not wait.  An eviction gives under the store's lock, which does.
  if (impl_->zero_on_release) memset(data, 0, slot_bytes(place));
  const std::lock_guard lock(impl_->mutex);
  place = books.slots.release(id);
  books.used_bytes -= slot_bytes(place);
  poison(data, slot_bytes(place));
  if (place.size_class == kLargeClass) {
    books.extents.give(static_cast<uint32_t>(place.offset_bytes / kUnitBytes), place.detail);
  } else {
    books.small.give(place.detail, place.offset_bytes);
  }
}

uint8_t *Slab::data(SlotId id) const {
  Place place;
  return impl_->books->slots.find(id, place) ? impl_->arena.data() + place.offset_bytes : nullptr;
}

uint64_t Slab::bytes(SlotId id) const {
  Place place;
  return impl_->books->slots.find(id, place) ? slot_bytes(place) : 0;
}

uint64_t Slab::rounded_bytes(uint64_t bytes) {
  return bytes <= kSmallBytesMax ? class_bytes(class_of(bytes)) : (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

uint64_t Slab::capacity_bytes() const { return impl_->arena.bytes(); }

uint64_t Slab::used_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->books->used_bytes;
}

uint64_t Slab::largest_free_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->books->largest_free_bytes();
}

}  // namespace kvc::memory
