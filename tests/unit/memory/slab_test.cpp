#include "memory/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/fault.h"

namespace kvc::memory {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;
constexpr uint64_t kSlabRecordBytes = 160;  // made 64 at a time

class SlabTest : public testing::Test {
 protected:
  void open(uint64_t bytes, bool zero_on_release = false) {
    ASSERT_EQ(slab_.open({.bytes = bytes}, zero_on_release, resource_, error_), KVC_OK) << error_.message;
  }
  SlotId take(uint64_t bytes) {
    SlotId id;
    EXPECT_EQ(slab_.take(&id, bytes, error_), KVC_OK) << error_.message;
    return id;
  }
  std::vector<SlotId> fill(uint64_t bytes) {
    std::vector<SlotId> ids;
    SlotId id;
    while (slab_.take(&id, bytes, error_) == KVC_OK) ids.push_back(id);
    return ids;
  }
  void give_all(const std::vector<SlotId> &ids) {
    for (const SlotId id : ids) slab_.give(id);
  }

  Resource resource_;
  Slab slab_;
  base::Error error_;
};

TEST_F(SlabTest, RefusesZeroBytesAndMoreThanTheArenaEverHolds) {
  open(2 * kMebi);
  SlotId id;
  for (const uint64_t bytes : {uint64_t{0}, 2 * kMebi + 1, UINT64_MAX}) {
    EXPECT_EQ(slab_.take(&id, bytes, error_), KVC_ERR_ARGUMENT);
    EXPECT_EQ(error_.message, "slot of " + std::to_string(bytes) + " bytes: the arena holds from 1 to 2097152");
  }
  EXPECT_EQ(id, SlotId{});
  slab_.give(take(2 * kMebi));
}

TEST_F(SlabTest, ASlotTakesTheBytesThatItsSizeIsRoundedTo) {
  open(4 * kMebi);
  for (const uint64_t bytes : {1, 64, 65, 513, 4096, 30000, 32768, 32769, 36864, 100000}) {
    const SlotId id = take(bytes);
    EXPECT_EQ(slab_.used_bytes(), Slab::rounded_bytes(bytes)) << bytes;
    slab_.give(id);
  }
}

TEST_F(SlabTest, WhenFullATakeChangesNothingAndAGiveMakesRoomAgain) {
  open(4 * kMebi);
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{640}, uint64_t{4096}, uint64_t{30000}, uint64_t{32769}, kMebi}) {
    const std::vector<SlotId> ids = fill(bytes);
    EXPECT_GE(slab_.used_bytes() * 16, slab_.capacity_bytes() * 15) << "full too early with " << bytes;
    SlotId id{7, 7};
    ASSERT_EQ(slab_.take(&id, bytes, error_), KVC_ERR_FULL);
    EXPECT_EQ(id, (SlotId{7, 7})) << "a failed take wrote";
    slab_.give(ids.back());
    const SlotId again = take(bytes);
    EXPECT_EQ(slab_.data(ids.back()), nullptr);
    EXPECT_NE(slab_.data(again), nullptr);
    slab_.give(again);
    give_all({ids.begin(), ids.end() - 1});
    ASSERT_EQ(slab_.largest_free_bytes(), slab_.capacity_bytes());
  }
}

TEST_F(SlabTest, NoClassKeepsRoomFromAnotherOnceItsSlotsAreGivenBack) {
  open(64 * kMebi);
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{5000}, uint64_t{100000}, 8 * kMebi, uint64_t{64}, 64 * kMebi}) {
    const std::vector<SlotId> ids = fill(bytes);
    EXPECT_GE(ids.size() * bytes * 100, slab_.capacity_bytes() * 76) << bytes;
    give_all(ids);
  }
}

TEST_F(SlabTest, ASmallSlotTakesRoomInALargerClassBeforeItIsRefused) {
  open(2 * kMebi);
  const std::vector<SlotId> ids = fill(32768);
  slab_.give(ids[0]);  // a hole in a slab of 32 KiB slots whose other slots live
  const uint64_t largest = slab_.largest_free_bytes();
  ASSERT_EQ(largest, 32768u);
  const SlotId small = take(64);
  EXPECT_GE(slab_.bytes(small), 64u);
}

TEST_F(SlabTest, SmallSlotsThatLiveLongDoNotSplitTheRoomOfLargeOnes) {
  open(64 * kMebi);
  std::vector<SlotId> large;
  for (int i = 0; i < 7; ++i) {
    large.push_back(take(8 * kMebi));
    take(32768);  // two fill a slab
    take(32768);
  }
  give_all(large);
  EXPECT_GE(slab_.largest_free_bytes(), 56 * kMebi);
}

TEST_F(SlabTest, AStaleIdReadsNothingThoughTheMemoryIsInUseAgain) {
  open(2 * kMebi);
  const SlotId old = take(4096);
  uint8_t *data = slab_.data(old);
  slab_.give(old);
  const SlotId fresh = take(4096);
  ASSERT_EQ(slab_.data(fresh), data) << "the test wants the same memory";
  EXPECT_EQ(slab_.data(old), nullptr);
  EXPECT_EQ(slab_.bytes(old), 0u);
  EXPECT_EQ(slab_.data({}), nullptr);
  EXPECT_EQ(slab_.data({UINT32_MAX, 1}), nullptr);
}

TEST_F(SlabTest, ZeroOnReleaseLeavesNothingBehindInTheWholeSlot) {
  open(4 * kMebi, true);
  for (const uint64_t bytes : {uint64_t{65}, uint64_t{4097}, uint64_t{40000}, 4 * kMebi}) {
    const SlotId old = take(bytes);
    uint8_t *data = slab_.data(old);
    memset(data, 0xA5, slab_.bytes(old));
    slab_.give(old);
    const SlotId fresh = take(bytes);
    ASSERT_EQ(slab_.data(fresh), data) << "the test wants the same memory";
    EXPECT_TRUE(std::all_of(data, data + slab_.bytes(fresh), [](uint8_t byte) { return byte == 0; })) << bytes;
    slab_.give(fresh);
  }
}

TEST_F(SlabTest, B62ArenasBeyond8GibibytesAndSlotsBeyond2And4AreExactAtEveryBorderUntouchedElsewhere) {
  open(uint64_t{12} << 30);
  const uint64_t sizes[] = {(uint64_t{1} << 31) + 4096, (uint64_t{1} << 32) + 4096, uint64_t{1} << 31, uint64_t{3} << 30};
  std::vector<SlotId> ids;
  for (const uint64_t bytes : sizes) ids.push_back(take(bytes));
  uint64_t offsets_bytes[4];
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(slab_.bytes(ids[i]), sizes[i]);
    offsets_bytes[i] = static_cast<uint64_t>(slab_.data(ids[i]) - slab_.data(ids[0]));
    for (const uint64_t at : {uint64_t{0}, (uint64_t{1} << 31) - 8, sizes[i] - 8}) {
      const uint64_t stamp = i << 48 | at;
      memcpy(slab_.data(ids[i]) + at, &stamp, sizeof stamp);
    }
  }
  EXPECT_GT(*std::max_element(offsets_bytes, offsets_bytes + 4), uint64_t{1} << 32);
  for (size_t i = 0; i < 4; ++i) {
    for (const uint64_t at : {uint64_t{0}, (uint64_t{1} << 31) - 8, sizes[i] - 8}) {
      uint64_t stamp = 0;
      memcpy(&stamp, slab_.data(ids[i]) + at, sizeof stamp);
      EXPECT_EQ(stamp, i << 48 | at) << i;
    }
  }
  EXPECT_EQ(slab_.used_bytes(), sizes[0] + sizes[1] + sizes[2] + sizes[3]);
  SlotId id;
  EXPECT_EQ(slab_.take(&id, uint64_t{1} << 31, error_), KVC_ERR_FULL);
  give_all(ids);
  EXPECT_EQ(slab_.largest_free_bytes(), slab_.capacity_bytes());
}

TEST_F(SlabTest, B58WhatIsFreeIsToldSoThatACallerEvictsTheShortfallOnly) {
  open(100 * 65536 * 2);  // 13,107,200 bytes, rounded up to 14 MiB
  std::vector<SlotId> ids = fill(65536);
  const size_t count = ids.size();
  for (size_t i = 0; i < 40; ++i) slab_.give(ids[i]);
  EXPECT_EQ(slab_.used_bytes(), (count - 40) * 65536);
  size_t evicted = 0;
  for (size_t granted = 0; granted < 48;) {
    SlotId id;
    if (slab_.take(&id, 65536, error_) == KVC_OK) {
      ++granted;
    } else {
      slab_.give(ids[40 + evicted++]);
    }
  }
  EXPECT_EQ(evicted, 8u);
  EXPECT_EQ(slab_.used_bytes(), count * 65536);
}

TEST_F(SlabTest, NoMemoryForTheBooksIsAStatusAndChangesNothing) {
  open(2 * kMebi);
  const uint64_t open_bytes = resource_.used_bytes();
  Resource tight(open_bytes + 1000);
  Slab slab;
  ASSERT_EQ(slab.open({.bytes = 2 * kMebi}, false, tight, error_), KVC_OK) << error_.message;
  SlotId id;
  EXPECT_EQ(slab.take(&id, 4096, error_), KVC_ERR_NO_MEMORY);
  EXPECT_EQ(id, SlotId{});
  EXPECT_EQ(slab.used_bytes(), 0u);
  EXPECT_EQ(slab.largest_free_bytes(), slab.capacity_bytes());
}

TEST_F(SlabTest, TheBooksOfALargeSlotAreItsDescriptorAlone) {
  open(uint64_t{8} << 30);
  const uint64_t open_bytes = resource_.used_bytes();
  constexpr uint64_t kSlots = 8 * 4096;  // whole chunks of descriptors, and all of the arena
  std::vector<SlotId> ids;
  for (uint64_t i = 0; i < kSlots; ++i) ids.push_back(take(262144));
  EXPECT_EQ(resource_.used_bytes() - open_bytes - 64 * kSlabRecordBytes, 16 * kSlots);
  for (uint64_t i = 0; i < 128; i += 2) slab_.give(ids[i]);
  EXPECT_EQ(resource_.used_bytes() - open_bytes - 64 * kSlabRecordBytes, 16 * kSlots) << "giving back allocates nothing";
}

TEST_F(SlabTest, NothingIsLeftInTheResourceWhenItEnds) {
  Resource resource;
  {
    Slab slab;
    ASSERT_EQ(slab.open({.bytes = 8 * kMebi}, false, resource, error_), KVC_OK);
    SlotId id;
    for (int i = 0; i < 10000; ++i) ASSERT_EQ(slab.take(&id, 64, error_), KVC_OK);
    EXPECT_GT(resource.used_bytes(), 0u);
  }
  EXPECT_EQ(resource.used_bytes(), 0u);
}

TEST_F(SlabTest, AFailedOpenLeavesNothingAndMayBeTriedAgain) {
  EXPECT_EQ(slab_.open({.bytes = 0}, false, resource_, error_), KVC_ERR_ARGUMENT);
  EXPECT_EQ(resource_.used_bytes(), 0u);
  Resource none(16);
  EXPECT_EQ(slab_.open({.bytes = kMebi}, false, none, error_), KVC_ERR_NO_MEMORY);
  EXPECT_EQ(none.used_bytes(), 0u);
  open(kMebi);
}

using SlabDeathTest = SlabTest;

TEST_F(SlabDeathTest, GivingBackTwiceIsABug) {
  open(2 * kMebi);
  const SlotId id = take(64);
  slab_.give(id);
  EXPECT_DEATH(slab_.give(id), "broken invariant");
  EXPECT_DEATH(slab_.give({}), "broken invariant");
}

#ifdef __SANITIZE_ADDRESS__
TEST_F(SlabDeathTest, AReadThroughAnOldPointerOrPastTheSlotIsReported) {
  open(2 * kMebi);
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{65536}}) {
    const SlotId id = take(bytes);
    volatile uint8_t *data = slab_.data(id);
    EXPECT_DEATH((void)data[bytes], "use-after-poison");
    slab_.give(id);
    EXPECT_DEATH((void)data[0], "use-after-poison");
  }
}
#endif

#ifdef KVC_FAULTS
TEST_F(SlabTest, ItsFaultPointSaysFullAndChangesNothing) {
  open(2 * kMebi);
  ASSERT_TRUE(base::fault_arm("memory.slab.take", 1, 1));
  SlotId id;
  EXPECT_EQ(slab_.take(&id, 64, error_), KVC_ERR_FULL);
  base::fault_disarm_all();
  EXPECT_EQ(id, SlotId{});
  EXPECT_EQ(slab_.used_bytes(), 0u);
  slab_.give(take(64));
}

TEST_F(SlabTest, EveryAllocationMayFailOnceAndTheNextTryWorks) {
  int failures = 0;
  for (uint64_t nth = 1;; ++nth) {
    Resource resource;
    Slab slab;
    ASSERT_TRUE(base::fault_arm("memory.resource.allocate", nth, 1));
    kvc_status status = slab.open({.bytes = 8 * kMebi}, false, resource, error_);
    if (status == KVC_ERR_NO_MEMORY) {
      ++failures;
      EXPECT_EQ(resource.used_bytes(), 0u);
      ASSERT_EQ(slab.open({.bytes = 8 * kMebi}, false, resource, error_), KVC_OK);
    }
    bool failed = status != KVC_OK;
    for (const uint64_t bytes : {uint64_t{64}, uint64_t{100000}}) {
      for (int i = 0; i < 70; ++i) {
        SlotId id;
        const uint64_t used_bytes = slab.used_bytes();
        status = slab.take(&id, bytes, error_);
        if (status == KVC_ERR_NO_MEMORY) {
          ++failures;
          failed = true;
          ASSERT_EQ(slab.used_bytes(), used_bytes);
          ASSERT_EQ(id, SlotId{});
          status = slab.take(&id, bytes, error_);
        }
        ASSERT_EQ(status, KVC_OK) << error_.message;
      }
    }
    base::fault_disarm_all();
    if (!failed) break;
  }
  EXPECT_EQ(failures, 5) << "books and both directories at open, descriptors, a slab's record";
}
#endif

}  // namespace
}  // namespace kvc::memory
