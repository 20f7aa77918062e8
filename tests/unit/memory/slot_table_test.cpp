#include "memory/slot_table.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "memory/resource.h"

namespace kvc::memory {
namespace {

SlotId acquire(SlotTable &table, const Place &place) {
  EXPECT_TRUE(table.reserve());
  return table.acquire(place);
}

TEST(SlotTable, ASlotIsFoundWithItsPlaceUntilItIsReleased) {
  Resource resource;
  SlotTable table(100, 1, resource);
  const Place place{.offset_bytes = (uint64_t{1} << 45) + 64, .size_class = 56, .detail = 0xFFFFFFFF};
  const SlotId id = acquire(table, place);
  Place found;
  ASSERT_TRUE(table.find(id, found));
  EXPECT_EQ(found.offset_bytes, place.offset_bytes);
  EXPECT_EQ(found.size_class, place.size_class);
  EXPECT_EQ(found.detail, place.detail);
  EXPECT_EQ(table.release(id).offset_bytes, place.offset_bytes);
  EXPECT_FALSE(table.find(id, found));
}

TEST(SlotTable, IdsThatWereNeverGivenOutAreNotFound) {
  Resource resource;
  SlotTable table(100, 1, resource);
  Place place;
  EXPECT_FALSE(table.find({}, place));
  EXPECT_FALSE(table.find({0, 1}, place));
  EXPECT_FALSE(table.find({UINT32_MAX, 1}, place));
  const SlotId id = acquire(table, {});
  EXPECT_FALSE(table.find({id.index, 0}, place));
  EXPECT_FALSE(table.find({id.index + 1, 1}, place));
  table.release(id);
  EXPECT_FALSE(table.find({id.index, id.generation + 1}, place)) << "the generation that comes next";
}

TEST(SlotTable, AnIndexUsedAgainHasAnotherGeneration) {
  Resource resource;
  SlotTable table(1, 1, resource);
  std::vector<SlotId> stale;
  for (int i = 0; i < 1000; ++i) {
    const SlotId id = acquire(table, {});
    Place place;
    ASSERT_TRUE(table.find(id, place));
    for (const SlotId &old : stale) ASSERT_FALSE(table.find(old, place));
    table.release(id);
    stale.push_back(id);
  }
}

TEST(SlotTable, AGenerationThatWrapsAroundSkipsZero) {
  Resource resource;
  SlotTable table(1, UINT32_MAX - 1, resource);
  const uint32_t want[] = {UINT32_MAX - 1, UINT32_MAX, 1, 2};
  SlotId last;
  for (const uint32_t generation : want) {
    const SlotId id = acquire(table, {});
    EXPECT_EQ(id.generation, generation);
    Place place;
    EXPECT_FALSE(table.find(last, place));
    EXPECT_TRUE(table.find(id, place));
    table.release(id);
    last = id;
  }
}

TEST(SlotTable, TheLimitIsExactAcrossChunks) {
  Resource resource;
  constexpr uint64_t kSlotMax = 3 * 4096 + 5;
  SlotTable table(kSlotMax, 1, resource);
  std::vector<SlotId> ids;
  for (uint64_t i = 0; i < kSlotMax; ++i) ids.push_back(acquire(table, {.offset_bytes = i * 64}));
  EXPECT_FALSE(table.reserve());
  for (uint64_t i = 0; i < kSlotMax; ++i) {
    Place place;
    ASSERT_TRUE(table.find(ids[i], place));
    ASSERT_EQ(place.offset_bytes, i * 64);
  }
  table.release(ids[77]);
  EXPECT_TRUE(table.reserve());
  EXPECT_EQ(acquire(table, {}).index, ids[77].index);
  EXPECT_FALSE(table.reserve());
}

TEST(SlotTable, NoMemoryForAChunkThrowsAndChangesNothing) {
  Resource resource(2 * 65536);
  SlotTable table(100000, 1, resource);
  for (int i = 0; i < 4096; ++i) acquire(table, {});
  EXPECT_THROW((void)table.reserve(), std::bad_alloc);
  table.release({5, 1});
  EXPECT_EQ(acquire(table, {}), (SlotId{5, 2}));
}

TEST(SlotTableDeathTest, ReleasingAStaleIdIsABug) {
  Resource resource;
  SlotTable table(10, 1, resource);
  const SlotId id = acquire(table, {});
  table.release(id);
  EXPECT_DEATH(table.release(id), "broken invariant");
}

}  // namespace
}  // namespace kvc::memory
