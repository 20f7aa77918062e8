#pragma once
#include <cstddef>
#include <cstdint>

#include "memory/free_tree.h"

namespace kvc::memory {

/// Runs of units of kUnitBytes out of [0, unit_count) at `data`: best fit, the lowest address among equals, coalesced when given back.  All
/// O(log n) in the number of free pieces, whose trees lie in the pieces: taking and giving back never allocates and so never fails for it.
/// Memory not taken yet is not touched; later the first bytes of a free piece are, and they are zero when it is taken.
/// Not thread-safe.
class Extents {
 public:
  Extents(uint8_t *data, uint32_t unit_count);

  enum class End { kLow, kHigh };
  /// False: no free piece is that long.  `end`: which end of the chosen piece is cut off.
  [[nodiscard]] bool take(uint32_t *begin, uint32_t units, End end) noexcept;
  /// What was taken, whole.  Anything that overlaps free units is a bug: KVC_CHECK.
  void give(uint32_t begin, uint32_t units) noexcept;

  uint64_t free_units() const { return free_units_; }
  uint32_t largest_units() const;

 private:
  uint32_t units_of(uint32_t piece) const { return FreeNodes::load(nodes_.units(piece)); }
  void add(uint32_t piece, uint32_t units) noexcept;
  void remove(uint32_t piece) noexcept;
  void resize(uint32_t piece, uint32_t units) noexcept;

  FreeNodes nodes_;
  FreeTree by_begin_;
  FreeTree by_size_;
  const uint32_t unit_count_;
  uint64_t free_units_;
};

}  // namespace kvc::memory
