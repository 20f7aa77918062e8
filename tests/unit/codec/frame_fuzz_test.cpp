#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "codec/frame.h"
#include "golden/vectors.h"
#include "kernels/rows.h"

namespace {

using kvc::base::Error;
using kvc::codec::FrameHeader;
using kvc::codec::frame_decode;

std::vector<golden::Bytes> headers() {
  std::vector<golden::Bytes> list;
  for (const golden::Record &record : golden::read("headers.txt")) list.push_back(record.bytes("header"));
  for (const golden::Record &record : golden::read("frames.txt")) {
    list.push_back(record.bytes("frame"));
    list.back().resize(512);
  }
  return list;
}

bool accepted(const golden::Bytes &bytes, uint64_t bytes_held, FrameHeader &out) {
  Error error;
  const kvc_status status = frame_decode(out, bytes.data(), bytes_held, error);
  if (status == KVC_OK) return true;
  EXPECT_TRUE(status == KVC_ERR_CORRUPT || status == KVC_ERR_VERSION) << status;
  EXPECT_EQ(status, error.status);
  EXPECT_NE(error.message[0], '\0');
  return false;
}

constexpr uint64_t whole = uint64_t{1} << 40;  // so that only the flip can be the reason

TEST(FrameFuzz, every_single_flipped_bit_is_refused) {
  for (golden::Bytes bytes : headers()) {
    FrameHeader out;
    ASSERT_TRUE(accepted(bytes, whole, out));
    for (size_t bit = 0; bit < 4096; ++bit) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      EXPECT_FALSE(accepted(bytes, whole, out)) << "bit " << bit;
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
  }
}

TEST(FrameFuzz, many_flipped_bits_and_noise_are_refused) {
  std::mt19937_64 random(7);
  const std::vector<golden::Bytes> list = headers();
  FrameHeader out;
  for (int round = 0; round < 200000; ++round) {
    const golden::Bytes &original = list[random() % list.size()];
    golden::Bytes bytes = original;
    for (uint64_t flips = 2 + random() % 30; flips > 0; --flips) {
      const uint64_t bit = random() % 4096;
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
    if (bytes == original) continue;
    EXPECT_FALSE(accepted(bytes, whole, out));
  }
  for (int round = 0; round < 20000; ++round) {
    golden::Bytes bytes(512);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    if (round % 2) std::memcpy(bytes.data(), "KVCPAGE1\x01\0\0\x02", 12);
    EXPECT_FALSE(accepted(bytes, whole, out));
  }
}

/// What a reader relies on after a header was taken, written without a look at the decoder.
void expect_safe(const FrameHeader &header, uint64_t bytes_held) {
  const uint64_t sizes[] = {0, 4, 2, 2, 1, 1};
  EXPECT_TRUE(header.tokens >= 1 && header.tokens <= 256 && header.layer < 65535);
  EXPECT_TRUE(header.head_count >= 1 && header.head_begin + header.head_count <= 128);
  EXPECT_TRUE(header.k_dtype >= 1 && header.k_dtype <= 5 && header.v_dtype >= 1 && header.v_dtype <= 5);
  std::vector<bool> taken;
  for (const auto &section : header.sections) {
    if (section.bytes == 0) continue;
    EXPECT_EQ(section.offset % 64, 0u);
    EXPECT_GE(section.offset, 512u);
    ASSERT_LE(section.offset + section.bytes, bytes_held);
    taken.resize(bytes_held);
    for (uint64_t i = section.offset; i < section.offset + section.bytes; ++i) {
      ASSERT_FALSE(taken[i]) << "two sections share byte " << i;
      taken[i] = true;
    }
  }
  if (header.format == 1 && header.k_dim != 0) {
    EXPECT_EQ(header.sections[7].bytes, uint64_t{header.head_count} * header.tokens * header.k_dim * sizes[header.k_dtype]);
    EXPECT_EQ(header.sections[8].bytes, uint64_t{header.head_count} * header.tokens * header.v_dim * sizes[header.v_dtype]);
  }
}

TEST(FrameFuzz, B72_a_forger_who_signs_gets_only_headers_that_are_safe_to_read_by) {
  std::mt19937_64 random(11);
  const std::vector<golden::Bytes> list = headers();
  // Small numbers, edges and wild ones; positions where the counts, dims, formats and the section table lie.
  const uint32_t values[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 16, 64, 127, 128, 129, 255, 256, 257, 4096, 65535, 0x7FFFFFFF, 0xFFFFFFFF};
  size_t taken = 0;
  for (int round = 0; round < 200000; ++round) {
    golden::Bytes bytes = list[random() % list.size()];
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % 2 ? 8 + random() % 90 : 256 + 4 * (random() % 48);
      const uint32_t value = random() % 4 ? values[random() % std::size(values)] : static_cast<uint32_t>(random());
      std::memcpy(bytes.data() + at, &value, 1 + random() % 4);
    }
    const uint64_t sum = kvc::kernels::table().sum(bytes.data(), 504);
    std::memcpy(bytes.data() + 504, &sum, 8);
    const uint64_t bytes_held = 512 + random() % 20000;
    FrameHeader out;
    if (!accepted(bytes, bytes_held, out)) continue;
    ++taken;
    expect_safe(out, bytes_held);
  }
  EXPECT_GT(taken, 1000u) << "the forger must get through often enough to prove anything";
}

}  // namespace
