#include "memory/extent.h"

#include "base/check.h"

namespace kvc::memory {

Extents::Extents(uint8_t *data, uint32_t unit_count)
    : nodes_(data),
      by_begin_(nodes_, FreeTree::Order::kBegin),
      by_size_(nodes_, FreeTree::Order::kSize),
      unit_count_(unit_count),
      free_units_(unit_count) {
  KVC_CHECK(unit_count > 0);
  nodes_.set_bare(0);
  add(0, unit_count);
}

void Extents::add(uint32_t piece, uint32_t units) noexcept {
  FreeNodes::store(nodes_.units(piece), units);
  by_begin_.insert(piece);
  by_size_.insert(piece);
}

void Extents::remove(uint32_t piece) noexcept {
  by_begin_.erase(piece);
  by_size_.erase(piece);
  nodes_.clear(piece);
}

void Extents::resize(uint32_t piece, uint32_t units) noexcept {
  by_size_.erase(piece);
  FreeNodes::store(nodes_.units(piece), units);
  by_size_.insert(piece);
}

bool Extents::take(uint32_t *begin, uint32_t units, End end) noexcept {
  KVC_CHECK(units > 0);
  const uint32_t piece = by_size_.find(FreeTree::size_key(units, 0)).from;
  if (piece == kNoPiece) return false;
  const uint32_t rest_units = units_of(piece) - units;
  if (rest_units > 0 && end == End::kHigh) {
    resize(piece, rest_units);
    *begin = piece + rest_units;
  } else {
    remove(piece);
    if (piece == nodes_.bare()) nodes_.set_bare(rest_units > 0 ? piece + units : kNoPiece);
    if (rest_units > 0) add(piece + units, rest_units);
    *begin = piece;
  }
  free_units_ -= units;
  return true;
}

void Extents::give(uint32_t begin, uint32_t units) noexcept {
  KVC_CHECK(units > 0 && units <= unit_count_ && begin <= unit_count_ - units);
  const uint32_t end = begin + units;
  const auto [before, after] = by_begin_.find(begin);
  const uint32_t before_units = before == kNoPiece ? 0 : units_of(before);
  KVC_CHECK(before == kNoPiece || before + before_units <= begin);
  KVC_CHECK(after == kNoPiece || after >= end);
  const bool joins_before = before != kNoPiece && before + before_units == begin;
  const bool joins_after = after == end;
  const uint32_t joined_begin = joins_before ? before : begin;
  const uint32_t joined_units = units + (joins_before ? before_units : 0) + (joins_after ? units_of(after) : 0);
  if (joins_after) remove(after);
  if (joins_after && after == nodes_.bare()) {
    // The bare piece grows downwards: its node stays where it is.
    if (joins_before) remove(before);
    nodes_.set_bare(joined_begin);
    add(joined_begin, joined_units);
  } else if (joins_before) {
    resize(before, joined_units);
  } else {
    add(begin, joined_units);
  }
  free_units_ += units;
}

uint32_t Extents::largest_units() const {
  const uint32_t largest = by_size_.find(UINT64_MAX).below;
  return largest == kNoPiece ? 0 : units_of(largest);
}

}  // namespace kvc::memory
