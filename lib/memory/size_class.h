#pragma once
#include <bit>
#include <cstdint>

namespace kvc::memory {

/// The unit of extents; large slots are multiples of it and aligned to it.
constexpr uint64_t kUnitBytes = 4096;
/// Slots up to here share slabs.  Every multiple of kUnitBytes up to here is a class, so a whole free piece can always be asked for.
constexpr uint64_t kSmallBytesMax = 32768;
/// 64 .. 512 in steps of 64, then eight a doubling: what is lost to rounding is below 1/8 of the request, or below 64 bytes.
constexpr uint32_t kClassCount = 56;
constexpr uint32_t kLargeClass = kClassCount;

/// Class of 1 <= bytes <= kSmallBytesMax.
constexpr uint32_t class_of(uint64_t bytes) {
  if (bytes <= 512) return static_cast<uint32_t>((bytes + 63) / 64 - 1);
  const auto doubling = static_cast<uint32_t>(std::bit_width(bytes - 1) - 1);
  const auto step = static_cast<uint32_t>((bytes - 1 - (uint64_t{1} << doubling)) >> (doubling - 3));
  return 8 + (doubling - 9) * 8 + step;
}

constexpr uint64_t class_bytes(uint32_t size_class) {
  if (size_class < 8) return (size_class + uint64_t{1}) * 64;
  const uint32_t doubling = 9 + (size_class - 8) / 8;
  const uint64_t step = (size_class - 8) % 8;
  return (uint64_t{1} << doubling) + ((step + 1) << (doubling - 3));
}

/// Units of a slab of this class: 64 KiB (less in arenas below 4 MiB, where a slab must not be a large part of all there is) or the first
/// size above that leaves at most 1/16 of the slab unused.
constexpr uint32_t slab_units(uint32_t size_class, uint64_t arena_bytes) {
  const uint64_t slot_bytes = class_bytes(size_class);
  const uint64_t wanted_bytes = arena_bytes / 64 < 65536 ? arena_bytes / 64 : 65536;
  const uint64_t least_bytes = wanted_bytes > slot_bytes ? wanted_bytes : slot_bytes;
  uint64_t units = (least_bytes + kUnitBytes - 1) / kUnitBytes;
  while (units * kUnitBytes % slot_bytes * 16 > units * kUnitBytes) ++units;
  return static_cast<uint32_t>(units);
}

static_assert(class_of(1) == 0 && class_of(64) == 0 && class_of(65) == 1 && class_of(512) == 7 && class_of(513) == 8);
static_assert(class_of(kSmallBytesMax) == kClassCount - 1 && class_bytes(kClassCount - 1) == kSmallBytesMax);

}  // namespace kvc::memory
