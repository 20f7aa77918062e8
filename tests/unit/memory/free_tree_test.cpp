#include "memory/free_tree.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <bit>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "memory/arena.h"

namespace kvc::memory {
namespace {

constexpr uint32_t kPieces = 4096;

struct Ground {
  explicit Ground(uint64_t bytes) {
    base::Error error;
    KVC_CHECK(arena.open({.bytes = bytes}, error) == KVC_OK);
    KVC_CHECK(madvise(arena.data(), arena.bytes(), MADV_NOHUGEPAGE) == 0);
  }
  Arena arena;
};

/// A tree over memory of its own, and what is in it: pieces that begin at multiples of a stride.
class Forest {
 public:
  Forest(FreeTree::Order order, uint32_t stride) : order_(order), stride_(stride), ground_(kPieces * stride * kUnitBytes) {}

  void insert(uint32_t number, uint32_t units = 1) {
    FreeNodes::store(nodes_.units(number * stride_), units);
    tree_.insert(number * stride_);
    pieces_.insert(number * stride_);
  }
  void erase(uint32_t number) {
    tree_.erase(number * stride_);
    pieces_.erase(number * stride_);
  }
  bool has(uint32_t number) const { return pieces_.contains(number * stride_); }

  /// No way down is longer than a tree in balance allows: 4 log2(n) and a little, where a chain has n.
  void expect_balanced(const char *where) const {
    const uint32_t depth_max = 4 * static_cast<uint32_t>(std::bit_width(pieces_.size())) + 4;
    EXPECT_LE(depth(), depth_max) << where << ": " << pieces_.size() << " pieces, every " << stride_ << "th unit";
  }

 private:
  uint32_t child(uint32_t piece, bool side) const { return FreeNodes::load(nodes_.child(piece, static_cast<uint32_t>(order_), side)); }

  /// Which one is the root follows from the links: it is nobody's child.
  uint32_t depth() const {
    std::set<uint32_t> roots = pieces_;
    for (const uint32_t piece : pieces_)
      for (const bool side : {false, true}) roots.erase(child(piece, side));
    EXPECT_EQ(roots.size(), pieces_.empty() ? 0u : 1u);
    uint32_t depth = 0;
    size_t seen = 0;
    for (std::vector<uint32_t> row(roots.begin(), roots.end()), next; !row.empty(); row.swap(next), next.clear(), depth++) {
      seen += row.size();
      for (const uint32_t piece : row)
        for (const bool side : {false, true})
          if (child(piece, side) != kNoPiece) next.push_back(child(piece, side));
    }
    EXPECT_EQ(seen, pieces_.size());
    return depth;
  }

  const FreeTree::Order order_;
  const uint32_t stride_;
  const Ground ground_;
  FreeNodes nodes_{ground_.arena.data()};
  FreeTree tree_{nodes_, order_};
  std::set<uint32_t> pieces_;
};

class FreeTreeDepth : public testing::TestWithParam<std::tuple<FreeTree::Order, uint32_t>> {
 protected:
  Forest forest_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(FreeTreeDepth, StaysLogarithmicWhenPiecesComeAndGoInAscendingOrder) {
  for (uint32_t i = 0; i < kPieces; i++) forest_.insert(i);
  forest_.expect_balanced("all of them");
  for (uint32_t i = 0; i < kPieces - 64; i++) forest_.erase(i);
  forest_.expect_balanced("the last of them");
}

TEST_P(FreeTreeDepth, StaysLogarithmicWhenPiecesComeAndGoInDescendingOrder) {
  for (uint32_t i = kPieces; i-- > 0;) forest_.insert(i);
  forest_.expect_balanced("all of them");
  for (uint32_t i = kPieces; i-- > 64;) forest_.erase(i);
  forest_.expect_balanced("the first of them");
}

TEST_P(FreeTreeDepth, StaysLogarithmicWhenSizesRiseFallOrAreEqual) {
  for (const int direction : {0, 1, -1}) {
    for (uint32_t i = 0; i < kPieces; i++) forest_.insert(i, direction == 0 ? 7 : direction > 0 ? i + 1 : kPieces - i);
    forest_.expect_balanced(direction == 0 ? "equal" : direction > 0 ? "rising" : "falling");
    for (uint32_t i = 0; i < kPieces; i++) forest_.erase(i);
  }
}

TEST_P(FreeTreeDepth, StaysLogarithmicFromBothEndsAndWithEveryOtherOneGone) {
  for (uint32_t i = 0; i < kPieces / 2; i++) forest_.insert(i), forest_.insert(kPieces - 1 - i);
  forest_.expect_balanced("both ends");
  for (uint32_t i = 0; i < kPieces; i += 2) forest_.erase(i);
  forest_.expect_balanced("every other one");
}

TEST_P(FreeTreeDepth, StaysLogarithmicInRandomHistories) {
  std::mt19937 random(std::get<1>(GetParam()));
  for (int round = 0; round < 10; round++) {
    for (int step = 0; step < 20000; step++) {
      const uint32_t number = static_cast<uint32_t>(random() % kPieces);
      if (forest_.has(number)) forest_.erase(number);
      else forest_.insert(number, static_cast<uint32_t>(random() % 50 + 1));
    }
    forest_.expect_balanced("a random history");
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, FreeTreeDepth, testing::Combine(testing::Values(FreeTree::Order::kBegin, FreeTree::Order::kSize), testing::Values(1u, 2u, 16u)));

}  // namespace
}  // namespace kvc::memory
