#include "memory/extent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "memory/resource.h"

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

TEST(Extents, TakesTheBestFitOfTheOracleAndCoalescesLikeIt) {
  constexpr uint32_t kUnits = 600;
  Resource resource;
  Extents extents(kUnits, resource);
  Oracle oracle(kUnits);
  std::map<uint32_t, uint32_t> live;
  std::mt19937 random(1);
  for (int step = 0; step < 20000; ++step) {
    if (live.empty() || random() % 100 < 55) {
      const auto units = static_cast<uint32_t>(random() % 4 == 0 ? random() % 100 + 1 : random() % 6 + 1);
      const auto end = random() % 2 ? Extents::End::kLow : Extents::End::kHigh;
      const auto want = oracle.take(units, end);
      uint32_t begin = 0;
      extents.reserve();
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
    ASSERT_EQ(extents.piece_count(), pieces.size());
    ASSERT_EQ(extents.free_units(), free_units);
    ASSERT_EQ(extents.largest_units(), largest);
  }
}

TEST(Extents, AllComesBackAsOnePieceWhateverTheOrder) {
  Resource resource;
  constexpr uint32_t kUnits = 4096;
  Extents extents(kUnits, resource);
  std::mt19937 random(2);
  for (int round = 0; round < 5; ++round) {
    std::vector<uint32_t> begins(kUnits);
    for (uint32_t &begin : begins) {
      extents.reserve();
      ASSERT_TRUE(extents.take(&begin, 1, Extents::End::kLow));
    }
    uint32_t none = 0;
    extents.reserve();
    ASSERT_FALSE(extents.take(&none, 1, Extents::End::kLow));
    ASSERT_EQ(extents.largest_units(), 0u);
    std::shuffle(begins.begin(), begins.end(), random);
    for (const uint32_t begin : begins) extents.give(begin, 1);
    ASSERT_EQ(extents.piece_count(), 1u);
    ASSERT_EQ(extents.largest_units(), kUnits);
  }
}

TEST(Extents, GivingBackNeedsNoMemoryEvenWithAsManyPiecesAsThereCanBe) {
  Resource resource;
  Extents extents(1 << 20, resource);
  constexpr size_t kLiveMax = 2000;
  size_t live = 0;
  // What is taken in a round is too long for the holes of the rounds before, so the holes stay and come near the number of live extents.
  for (uint32_t units = 1; units <= 128; units *= 2) {
    std::vector<uint32_t> begins(kLiveMax - live);
    for (uint32_t &begin : begins) {
      extents.reserve();
      ASSERT_TRUE(extents.take(&begin, units, Extents::End::kLow));
    }
    const uint64_t before = resource.used_bytes();
    for (size_t i = 0; i < begins.size(); i += 2) extents.give(begins[i], units);
    live += begins.size() / 2;
    EXPECT_EQ(resource.used_bytes(), before);
  }
  EXPECT_GE(extents.piece_count(), live * 9 / 10);
}

TEST(Extents, TheLargestRangeOf32BitUnitsWorks) {
  Resource resource;
  Extents extents(UINT32_MAX, resource);
  uint32_t a = 0, b = 0;
  extents.reserve();
  ASSERT_TRUE(extents.take(&a, UINT32_MAX - 1, Extents::End::kLow));
  extents.reserve();
  ASSERT_TRUE(extents.take(&b, 1, Extents::End::kLow));
  EXPECT_EQ(b, UINT32_MAX - 1);
  extents.give(a, UINT32_MAX - 1);
  extents.give(b, 1);
  EXPECT_EQ(extents.largest_units(), UINT32_MAX);
}

TEST(ExtentsDeathTest, GivingBackWhatIsFreeIsABug) {
  Resource resource;
  Extents extents(100, resource);
  uint32_t begin = 0;
  extents.reserve();
  ASSERT_TRUE(extents.take(&begin, 10, Extents::End::kLow));
  EXPECT_DEATH(extents.give(begin, 11), "broken invariant");
  EXPECT_DEATH(extents.give(99, 2), "broken invariant");
  extents.give(begin, 10);
  EXPECT_DEATH(extents.give(begin, 10), "broken invariant");
}

}  // namespace
}  // namespace kvc::memory
