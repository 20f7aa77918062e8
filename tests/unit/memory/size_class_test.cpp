#include "memory/size_class.h"

#include <gtest/gtest.h>

namespace kvc::memory {
namespace {

TEST(SizeClass, EverySmallSizeGetsTheLeastClassThatHoldsItAndLosesUnderAnEighthOr64Bytes) {
  for (uint64_t bytes = 1; bytes <= kSmallBytesMax; ++bytes) {
    const uint32_t size_class = class_of(bytes);
    ASSERT_LT(size_class, kClassCount);
    ASSERT_GE(class_bytes(size_class), bytes);
    if (size_class > 0) {
      ASSERT_LT(class_bytes(size_class - 1), bytes) << "a smaller class would do";
    }
    const uint64_t waste_bytes = class_bytes(size_class) - bytes;
    ASSERT_TRUE(waste_bytes < 64 || waste_bytes * 8 < bytes) << bytes;
  }
}

TEST(SizeClass, EveryClassKeepsSlotsAlignedTo64Bytes) {
  for (uint32_t size_class = 0; size_class < kClassCount; ++size_class) ASSERT_EQ(class_bytes(size_class) % 64, 0u);
}

TEST(SizeClass, EveryMultipleOfAUnitIsAClassSoThatAWholeFreePieceCanBeTaken) {
  for (uint64_t bytes = kUnitBytes; bytes <= kSmallBytesMax; bytes += kUnitBytes) ASSERT_EQ(class_bytes(class_of(bytes)), bytes);
}

TEST(SizeClass, ASlabWastesAtMostASixteenthAndStaysSmallInASmallArena) {
  for (uint64_t arena_bytes : {uint64_t{2} << 20, uint64_t{4} << 20, uint64_t{1} << 40}) {
    for (uint32_t size_class = 0; size_class < kClassCount; ++size_class) {
      const uint64_t slab_bytes = slab_units(size_class, arena_bytes) * kUnitBytes;
      ASSERT_GE(slab_bytes, class_bytes(size_class));
      ASSERT_LE(slab_bytes % class_bytes(size_class) * 16, slab_bytes);
      ASSERT_LE(slab_bytes, uint64_t{128} << 10);
      ASSERT_LE(slab_bytes, arena_bytes / 16) << size_class;
    }
  }
}

}  // namespace
}  // namespace kvc::memory
