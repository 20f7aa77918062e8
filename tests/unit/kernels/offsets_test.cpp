#include "tests/unit/kernels/oracle.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

/// Layouts whose rows lie gigabytes apart, in memory that is reserved but never filled.
namespace kvc::kernels {
namespace {

constexpr size_t reserved_bytes = size_t{40} << 30;

class Sparse : public ::testing::Test {
 protected:
  void SetUp() override {
    void *mapped = mmap(nullptr, reserved_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory_ = static_cast<uint8_t *>(mapped);
  }
  void TearDown() override {
    if (memory_ != nullptr) munmap(memory_, reserved_bytes);
  }

  /// Out to the far places, compared there one by one; then back in, compared with the page that went out.
  void round_trip(RowsSide rows, Dtype page_dtype, uint32_t dim, uint32_t tokens, uint32_t heads) {
    std::mt19937 random(8);
    std::vector<uint8_t> page(static_cast<size_t>(dim) * tokens * heads * dtype_bytes(page_dtype));
    for (size_t i = 0; i < page.size(); i += 2) oracle::store(page.data() + i, 0x3C00 | (random() & 0x3FF), 2);
    rows.data = memory_;
    for (const Table *table : oracle::tables()) {
      for (bool stream : {false, true}) {
        madvise(memory_, reserved_bytes, MADV_DONTNEED);
        std::vector<uint8_t> copy = page, back(page.size());
        table->rows_out(rows, {copy.data(), page_dtype, dim, tokens}, {0, tokens, 0, heads, stream});
        for (uint32_t head = 0; head < heads; ++head) {
          for (uint32_t token = 0; token < tokens; ++token) {
            for (uint32_t d = 0; d < dim; ++d) {
              uint8_t want[4] = {};
              size_t element = (static_cast<size_t>(head) * tokens + token) * dim + d;
              oracle::convert(want, rows.dtype, page.data() + element * dtype_bytes(page_dtype), page_dtype);
              ASSERT_EQ(memcmp(memory_ + oracle::caller_offset(rows, token, head, d), want, dtype_bytes(rows.dtype)), 0)
                  << head << " " << token << " " << d;
            }
          }
        }
        table->rows_in({back.data(), page_dtype, dim, tokens}, rows, {0, tokens, 0, heads, stream});
        ASSERT_EQ(back, page) << table->name;
        back.assign(back.size(), 0);
        table->rows_in_sum({back.data(), page_dtype, dim, tokens}, rows, heads, stream);
        ASSERT_EQ(back, page) << table->name;
      }
    }
  }

  uint8_t *memory_ = nullptr;
};

constexpr uint64_t gib = uint64_t{1} << 30;

TEST_F(Sparse, TokensMayLieGigabytesApart) {
  round_trip({nullptr, Dtype::f16, 1, 2 * gib + 6, 256, 2, nullptr, 0, 0, 1}, Dtype::f16, 128, 16, 2);
}

TEST_F(Sparse, HeadsMayLieGigabytesApart) {
  round_trip({nullptr, Dtype::f16, 1, 256, 9 * gib, 2, nullptr, 0, 0, 5}, Dtype::f16, 128, 16, 4);
}

TEST_F(Sparse, DimsMayLieGigabytesApart) {
  round_trip({nullptr, Dtype::f16, 1, 2, 32, gib, nullptr, 0, 0, 0}, Dtype::f16, 32, 16, 2);
  round_trip({nullptr, Dtype::f16, 8, 16, 256, 3 * gib, nullptr, 0, 0, 0}, Dtype::f16, 96, 16, 2);
}

TEST_F(Sparse, BlocksMayLiePastFourGigabytes) {
  int32_t blocks[] = {3, 1, 15};
  round_trip({nullptr, Dtype::f16, 1, 256, 4096, 2, blocks, 5 * gib / 2, 16, 9}, Dtype::f16, 128, 32, 2);
}

TEST_F(Sparse, BlockNumbersMayBeLarge) {
  int32_t blocks[] = {0x7FFFFFFF, 0x40000001};
  round_trip({nullptr, Dtype::f16, 1, 2, 2, 2, blocks, 16, 4, 0}, Dtype::f16, 1, 8, 1);
}

TEST_F(Sparse, SlotsMayPassFourBillion) {
  round_trip({nullptr, Dtype::f16, 1, 8, 2, 2, nullptr, 0, 0, 0x100000010}, Dtype::f16, 1, 16, 2);
}

TEST_F(Sparse, TheLastRowOfTheLargestPageSideIsWhereItBelongs) {
  const PageSide page{memory_, Dtype::f16, 65535, 256};
  const size_t row_bytes = size_t{page.dim} * 2, offset = (size_t{128} * page.page_tokens - 1) * row_bytes;
  uint8_t *const caller = memory_ + 8 * gib;
  const RowsSide rows{caller, Dtype::f16, 1, row_bytes, row_bytes, 2, nullptr, 0, 0, 0};
  std::vector<uint8_t> row(row_bytes);
  for (size_t i = 0; i < row_bytes; ++i) row[i] = static_cast<uint8_t>(i * 7 + i / 251);
  for (const Table *table : oracle::tables()) {
    for (bool stream : {false, true}) {
      madvise(memory_, reserved_bytes, MADV_DONTNEED);
      memcpy(caller, row.data(), row_bytes);
      table->rows_in(page, rows, {255, 1, 127, 1, stream});
      ASSERT_EQ(memcmp(memory_ + offset, row.data(), row_bytes), 0) << table->name;
      memset(caller, 0, row_bytes);
      table->rows_out(rows, page, {255, 1, 127, 1, stream});
      ASSERT_EQ(memcmp(caller, row.data(), row_bytes), 0) << table->name;
    }
  }
}

TEST_F(Sparse, ConversionsReachJustAsFar) {
  round_trip({nullptr, Dtype::f32, 1, 2 * gib, 512, 4, nullptr, 0, 0, 1}, Dtype::f16, 128, 16, 2);
}

}  // namespace
}  // namespace kvc::kernels
