#pragma once
#include <array>
#include <cstdint>
#include <memory_resource>

#include "memory/chunked.h"
#include "memory/extent.h"
#include "memory/size_class.h"

namespace kvc::memory {

/// Slots of the size classes, carved out of slabs that are extents.  A slab whose last slot is given back goes back to the extents.
/// Not thread-safe.
class SmallSlots {
 public:
  SmallSlots(Extents &extents, uint64_t arena_bytes, std::pmr::memory_resource &resource);

  /// Makes the next take() sure not to need memory.  Throws std::bad_alloc, nothing changed.
  void reserve();
  /// Takes a slot of the class, out of a new slab if need be; when no extent is left for one, of the next larger class that has a slot, and
  /// says so in `*size_class`.  False: neither.
  [[nodiscard]] bool take(uint32_t *size_class, uint64_t *offset_bytes, uint32_t *slab) noexcept;
  void give(uint32_t slab, uint64_t offset_bytes) noexcept;

  /// Of the largest class with a free slot in some slab; 0: none.
  uint64_t largest_free_bytes() const;

 private:
  // A slab of 64 KiB has at most 1,024 slots; larger slabs are made for larger slots only.
  static constexpr uint32_t kWordCount = 16;
  struct Slab {
    uint32_t begin_unit = 0;
    uint32_t unit_count = 0;
    uint32_t previous = 0, next = 0;  // + 1, 0: none; among the slabs of the class with room, or (next only) among unused records
    uint32_t live_count = 0;
    uint32_t slot_count = 0;
    uint32_t size_class = 0;
    uint32_t free_words = 0;                         // bit w: free_slots[w] is not 0
    std::array<uint64_t, kWordCount> free_slots{};  // bit s: slot s is free
  };

  [[nodiscard]] bool carve(uint32_t size_class) noexcept;
  void link(uint32_t index) noexcept;
  void unlink(uint32_t index) noexcept;

  Extents &extents_;
  std::array<uint32_t, kClassCount> slab_units_;
  std::array<uint32_t, kClassCount> with_room_{};  // + 1, 0: none
  uint64_t classes_with_room_ = 0;
  ChunkedTable<Slab, 64> slabs_;
  uint64_t slab_count_ = 0;    // records [0, slab_count_) were used before
  uint32_t unused_slab_ = 0;  // + 1, 0: none
};

}  // namespace kvc::memory
