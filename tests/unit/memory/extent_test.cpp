#include "memory/extent.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "base/check.h"
#include "memory/arena.h"

namespace kvc::memory {
namespace {

/// Best fit over a plain array of units: slow and obvious.
class Oracle {
 public:
  explicit Oracle(uint32_t units) : used_(units, false) {}

  std::vector<std::pair<uint32_t, uint32_t>> pieces() const {
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      const uint32_t begin = i;
      while (i < used_.size() && !used_[i]) ++i;
      found.emplace_back(i - begin, begin);
    }
    return found;
  }

  std::optional<uint32_t> take(uint32_t units, Extents::End end) {
    std::optional<std::pair<uint32_t, uint32_t>> best;
    for (const auto &piece : pieces()) {
      if (piece.first >= units && (!best || piece.first < best->first)) best = piece;
    }
    if (!best) return std::nullopt;
    const uint32_t begin = end == Extents::End::kLow ? best->second : best->second + best->first - units;
    set(begin, units, true);
    return begin;
  }

  void set(uint32_t begin, uint32_t units, bool used) { std::fill_n(used_.begin() + begin, units, used); }

 private:
  std::vector<bool> used_;
};

/// Extents over memory of their own.
struct Ground {
  explicit Ground(uint32_t units) {
    base::Error error;
    KVC_CHECK(arena.open({.bytes = units * kUnitBytes}, error) == KVC_OK);
  }
  uint8_t *at(uint32_t unit) const { return arena.data() + unit * kUnitBytes; }
  Arena arena;
};

TEST(Extents, TakesTheBestFitOfTheOracleAndCoalescesLikeIt) {
  constexpr uint32_t kUnits = 600;
  const Ground ground(kUnits);
  Extents extents(ground.at(0), kUnits);
  Oracle oracle(kUnits);
  std::map<uint32_t, uint32_t> live;
  std::mt19937 random(1);
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      const auto units = static_cast<uint32_t>(random() % 4 == 0 ? random() % 100 + 1 : random() % 6 + 1);
      const auto end = random() % 2 ? Extents::End::kLow : Extents::End::kHigh;
      const auto want = oracle.take(units, end);
      uint32_t begin = 0;
      ASSERT_EQ(extents.take(&begin, units, end), want.has_value());
      if (want) {
        ASSERT_EQ(begin, *want);
        live[begin] = units;
      }
    } else {
      const auto victim = std::next(live.begin(), random() % live.size());
      extents.give(victim->first, victim->second);
      oracle.set(victim->first, victim->second, false);
      live.erase(victim);
    }
    const auto pieces = oracle.pieces();
    uint64_t free_units = 0;
    uint32_t largest = 0;
    for (const auto &[units, begin] : pieces) {
      free_units += units;
      largest = std::max(largest, units);
    }
    ASSERT_EQ(extents.free_units(), free_units);
    ASSERT_EQ(extents.largest_units(), largest);
  }
}

TEST(Extents, AllComesBackAsOnePieceWhateverTheOrder) {
  constexpr uint32_t kUnits = 4096;
  const Ground ground(kUnits);
  Extents extents(ground.at(0), kUnits);
  std::mt19937 random(2);
  for (int round = 0; round < 5; ++round) {
    std::vector<uint32_t> begins(kUnits);
    for (uint32_t &begin : begins) {
      ASSERT_TRUE(extents.take(&begin, 1, Extents::End::kLow));
    }
    uint32_t none = 0;
    ASSERT_FALSE(extents.take(&none, 1, Extents::End::kLow));
    ASSERT_EQ(extents.largest_units(), 0u);
    std::shuffle(begins.begin(), begins.end(), random);
    for (const uint32_t begin : begins) extents.give(begin, 1);
    ASSERT_EQ(extents.largest_units(), kUnits);
  }
}

TEST(Extents, WhatIsTakenIsAsItWasGivenBackButForZeroesInItsFirstBytes) {
  constexpr uint32_t kUnits = 512;
  const Ground ground(kUnits);
  Extents extents(ground.at(0), kUnits);
  std::map<uint32_t, uint32_t> live;
  std::mt19937 random(3);
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      const auto units = static_cast<uint32_t>(random() % 20 + 1);
      uint32_t begin = 0;
      if (!extents.take(&begin, units, random() % 2 ? Extents::End::kLow : Extents::End::kHigh)) continue;
      // What is free is zero but for its nodes, so anything else found here was left by one.
      const uint8_t *data = ground.at(begin);
      ASSERT_TRUE(std::all_of(data, data + units * kUnitBytes, [](uint8_t byte) { return byte == 0; })) << "step " << step;
      memset(ground.at(begin), 0xA5, units * kUnitBytes);
      live[begin] = units;
    } else {
      const auto victim = std::next(live.begin(), random() % live.size());
      const uint8_t *data = ground.at(victim->first);
      const uint8_t *end = data + victim->second * kUnitBytes;
      ASSERT_TRUE(std::all_of(data, end, [](uint8_t byte) { return byte == 0xA5; })) << "a live one was written";
      memset(ground.at(victim->first), 0, victim->second * kUnitBytes);
      extents.give(victim->first, victim->second);
      live.erase(victim);
    }
  }
}

TEST(Extents, MemoryThatWasNeverTakenIsNotTouched) {
  constexpr uint32_t kUnits = 4 * 512;
  const Ground ground(kUnits);
  ASSERT_EQ(madvise(ground.at(0), kUnits * kUnitBytes, MADV_NOHUGEPAGE), 0);
  Extents extents(ground.at(0), kUnits);
  uint32_t low[20], high[20];
  for (uint32_t &begin : low) ASSERT_TRUE(extents.take(&begin, 10, Extents::End::kLow));
  for (uint32_t &begin : high) ASSERT_TRUE(extents.take(&begin, 10, Extents::End::kHigh));
  unsigned char pages[kUnits];
  ASSERT_EQ(mincore(ground.at(0), kUnits * kUnitBytes, pages), 0);
  EXPECT_EQ(std::count(pages, pages + kUnits, 0), kUnits);
  // Of a piece given back one page is, and of the untouched memory it joins none.
  extents.give(low[3], 10);
  extents.give(low[19], 10);
  extents.give(high[19], 10);
  ASSERT_EQ(mincore(ground.at(0), kUnits * kUnitBytes, pages), 0);
  EXPECT_EQ(std::count(pages, pages + kUnits, 0), kUnits - 1);
}

#ifndef __SANITIZE_THREAD__  // does not bear mappings of terabytes
TEST(Extents, TheLargestRangeOf32BitUnitsWorks) {
  constexpr uint32_t kUnits = UINT32_MAX - 511;  // of the largest arena
  const Ground ground(kUnits);
  Extents extents(ground.at(0), kUnits);
  uint32_t a = 0, b = 0;
  ASSERT_TRUE(extents.take(&a, kUnits - 1, Extents::End::kLow));
  ASSERT_TRUE(extents.take(&b, 1, Extents::End::kLow));
  EXPECT_EQ(b, kUnits - 1);
  extents.give(a, kUnits - 1);
  extents.give(b, 1);
  EXPECT_EQ(extents.largest_units(), kUnits);
}
#endif

TEST(ExtentsDeathTest, GivingBackWhatIsFreeIsABug) {
  const Ground ground(100);
  Extents extents(ground.at(0), 100);
  uint32_t begin = 0;
  ASSERT_TRUE(extents.take(&begin, 10, Extents::End::kLow));
  EXPECT_DEATH(extents.give(begin, 11), "broken invariant");
  EXPECT_DEATH(extents.give(99, 2), "broken invariant");
  extents.give(begin, 10);
  EXPECT_DEATH(extents.give(begin, 10), "broken invariant");
}

}  // namespace
}  // namespace kvc::memory
