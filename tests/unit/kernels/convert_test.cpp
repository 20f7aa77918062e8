#include "tests/unit/kernels/oracle.h"

#include <algorithm>
#include <gtest/gtest.h>

/// Conversions number by number.  A row of `count` dims and one token is a contiguous span, which is all that is needed here.
namespace kvc::kernels {
namespace {

std::vector<uint8_t> converted(const Table &table, const std::vector<uint8_t> &from, Dtype from_dtype, Dtype to_dtype, bool out) {
  uint32_t count = static_cast<uint32_t>(from.size() / dtype_bytes(from_dtype));
  std::vector<uint8_t> to(static_cast<size_t>(count) * dtype_bytes(to_dtype), 0xA5), source = from;
  constexpr uint32_t dim = 128;  // in heads of one token, so that the block that is converted at once has many rows
  EXPECT_EQ(count % dim, 0u);
  if (out) {
    RowsSide rows{to.data(), to_dtype, dim, dim * dtype_bytes(to_dtype), 0, 0, nullptr, 0, 0, 0};
    table.rows_out(rows, {source.data(), from_dtype, dim, count / dim}, {0, count / dim, 0, 1, false});
  } else {
    RowsSide rows{source.data(), from_dtype, dim, dim * dtype_bytes(from_dtype), 0, 0, nullptr, 0, 0, 0};
    table.rows_in({to.data(), to_dtype, dim, count / dim}, rows, {0, count / dim, 0, 1, false});
  }
  return to;
}

void expect_right(const std::vector<uint8_t> &from, Dtype from_dtype, Dtype to_dtype) {
  size_t from_bytes = dtype_bytes(from_dtype), to_bytes = dtype_bytes(to_dtype), count = from.size() / from_bytes;
  std::vector<uint8_t> want(count * to_bytes);
  for (size_t i = 0; i < count; ++i) oracle::convert(want.data() + i * to_bytes, to_dtype, from.data() + i * from_bytes, from_dtype);
  for (const Table *table : oracle::tables()) {
    for (bool out : {false, true}) {
      std::vector<uint8_t> got = converted(*table, from, from_dtype, to_dtype, out);
      for (size_t i = 0; i < count; ++i) {
        uint32_t source = oracle::load(from.data() + i * from_bytes, static_cast<int>(from_bytes));
        uint32_t result = oracle::load(got.data() + i * to_bytes, static_cast<int>(to_bytes));
        ASSERT_EQ(result, oracle::load(want.data() + i * to_bytes, static_cast<int>(to_bytes)))
            << table->name << " " << std::hex << source << " dtype " << static_cast<uint32_t>(from_dtype) << " to "
            << static_cast<uint32_t>(to_dtype);
      }
    }
  }
}

std::vector<uint8_t> bytes_of(const std::vector<uint32_t> &values) {
  std::vector<uint8_t> bytes(values.size() * 4);
  memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(KernelConvert, EveryHalfAndEveryBfloatBecomesEveryOtherTypeAsTheOracleSays) {
  std::vector<uint8_t> all(65536 * 2);
  for (uint32_t i = 0; i < 65536; ++i) oracle::store(all.data() + 2 * i, i, 2);
  for (Dtype from : {Dtype::f16, Dtype::bf16}) {
    for (Dtype to : {Dtype::f32, Dtype::f16, Dtype::bf16}) expect_right(all, from, to);
  }
}

/// The neighbourhood of every value of the narrow type and of every half-way point between two: exact, tie to the even side from both
/// sides, and one step off each.
TEST(KernelConvert, SinglePrecisionRoundsToNearestEvenAroundEveryNarrowValueAndTie) {
  for (Dtype to : {Dtype::f16, Dtype::bf16}) {
    oracle::Format narrow = oracle::format_of(to), wide = oracle::format_of(Dtype::f32);
    std::vector<uint32_t> values;
    for (uint32_t i = 0; i < 32767; ++i) {
      oracle::Number low = oracle::decode(i, narrow), high = oracle::decode(i + 1, narrow);
      if (low.nan || low.infinite || high.nan) continue;
      if (high.infinite) high.magnitude = std::ldexp(1.0, narrow.exponent_max + 1);
      oracle::Number middle{false, false, false, (low.magnitude + high.magnitude) / 2, 0};
      for (const oracle::Number &number : {low, middle}) {
        uint32_t bits = oracle::encode(number, wide);
        for (uint32_t near : {bits - 1, bits, bits + 1}) {
          values.push_back(near);
          values.push_back(near ^ 0x80000000);
        }
      }
    }
    values.resize(values.size() / 128 * 128);
    expect_right(bytes_of(values), Dtype::f32, to);
  }
}

TEST(KernelConvert, SinglePrecisionOfEveryExponentAndEveryKindOfNanConverts) {
  std::mt19937 random(5);
  std::vector<uint32_t> values = {0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x7F800000,
                                  0xFF800000, 0x7F800001, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 0x7F7FFFFF};
  for (uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (int i = 0; i < 256; ++i) values.push_back(exponent << 23 | (random() & 0x7FFFFF));
  }
  values.resize(values.size() / 128 * 128);
  for (Dtype to : {Dtype::f16, Dtype::bf16}) expect_right(bytes_of(values), Dtype::f32, to);
}

TEST(KernelConvert, EqualTypesAreCopiedBitForBitNansIncluded) {
  std::mt19937 random(6);
  std::vector<uint32_t> values(128 * 64, 0x7F800001);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = static_cast<uint32_t>(random());
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f8_e4m3, Dtype::u8}) {
    for (const Table *table : oracle::tables()) {
      for (bool out : {false, true}) EXPECT_EQ(converted(*table, bytes_of(values), dtype, dtype, out), bytes_of(values)) << table->name;
    }
  }
}

TEST(KernelConvert, OnlyTheThreeNumberTypesConvert) {
  for (uint32_t a = 1; a <= 5; ++a) {
    for (uint32_t b = 1; b <= 5; ++b) EXPECT_EQ(convertible(Dtype{a}, Dtype{b}), a == b || (a <= 3 && b <= 3)) << a << " " << b;
  }
}

}  // namespace
}  // namespace kvc::kernels
