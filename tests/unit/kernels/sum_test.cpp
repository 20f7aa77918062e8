#include "tests/unit/kernels/oracle.h"

#include <gtest/gtest.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvc::kernels {
namespace {

std::vector<uint8_t> noise(size_t size) {
  std::mt19937_64 random(7);
  std::vector<uint8_t> bytes(size);
  for (auto &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(KernelSum, EqualsTheLibraryAtEveryLength) {
  std::vector<uint8_t> bytes = noise(3 << 20);
  for (const Table *table : oracle::tables()) {
    for (size_t size = 0; size <= 5000; ++size) {
      ASSERT_EQ(table->sum(bytes.data() + 1, size), XXH3_64bits(bytes.data() + 1, size)) << table->name << " " << size;
    }
    for (size_t size : {size_t{1} << 20, (size_t{1} << 20) + 1, bytes.size() - 1}) {
      EXPECT_EQ(table->sum(bytes.data() + 1, size), XXH3_64bits(bytes.data() + 1, size)) << table->name << " " << size;
    }
  }
}

/// XXH3 changes its form at 16, 128 and 240 bytes and at every KiB; a page of one head and `size` tokens of one byte walks through all of
/// them.
TEST(KernelSum, OfAnAppendEqualsTheLibraryAtEveryLength) {
  std::vector<uint8_t> bytes = noise(5000), page(5000 + 64);
  uint8_t *aligned = page.data() + (64 - reinterpret_cast<uintptr_t>(page.data()) % 64) % 64;
  for (const Table *table : oracle::tables()) {
    for (uint32_t size = 1; size <= 5000; ++size) {
      for (bool stream : {false, true}) {
        RowsSide by_token{bytes.data(), Dtype::u8, 1, 1, 0, 1, nullptr, 0, 0, 0};
        uint64_t want = XXH3_64bits(bytes.data(), size);
        ASSERT_EQ(table->rows_in_sum({aligned, Dtype::u8, 1, size}, by_token, 1, stream), want) << table->name << " " << size;
        RowsSide one_row{bytes.data(), Dtype::u8, 1, size, 0, 1, nullptr, 0, 0, 0};
        ASSERT_EQ(table->rows_in_sum({aligned, Dtype::u8, size, 1}, one_row, 1, stream), want) << table->name << " " << size;
        ASSERT_EQ(memcmp(aligned, bytes.data(), size), 0);
      }
    }
  }
}

TEST(KernelCopy, CopiesEveryLengthFromAndToEveryAlignmentAndNothingBeside) {
  std::vector<uint8_t> bytes = noise(20000);
  for (const Table *table : oracle::tables()) {
    for (const uint8_t *next : {static_cast<const uint8_t *>(nullptr), static_cast<const uint8_t *>(bytes.data())}) {
      for (size_t size = 0; size < 9000; size += size < 300 ? 1 : 611) {
        for (size_t offset : {0, 1, 16, 63}) {
          std::vector<uint8_t> to(size + 256, 0xA5), want = to;
          memcpy(want.data() + 64 + offset, bytes.data() + size % 7, size);
          table->copy(to.data() + 64 + offset, bytes.data() + size % 7, size, next);
          table->fence();
          ASSERT_EQ(to, want) << table->name << " " << size << " " << offset;
          std::ranges::fill(to, uint8_t{0xA5});
          ASSERT_EQ(table->copy_sum(to.data() + 64 + offset, bytes.data() + size % 7, size, next), XXH3_64bits(bytes.data() + size % 7, size));
          table->fence();
          ASSERT_EQ(to, want) << table->name << " " << size << " " << offset;
        }
      }
    }
  }
}

TEST(KernelTable, IsTheWidestThatThisMachineRunsAndUnknownNamesAreNone) {
  ASSERT_NE(table_named("base"), nullptr);
  EXPECT_EQ(&table(), oracle::tables().back());
  EXPECT_EQ(table_named("avx1024"), nullptr);
  for (const Table *one : oracle::tables()) EXPECT_EQ(table_named(one->name), one);
}

}  // namespace
}  // namespace kvc::kernels
