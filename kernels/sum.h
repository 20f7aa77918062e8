#pragma once
#include "kernels/lines.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/// XXH3-64 (seed 0, default secret) of a span whose lines come one by one, each used for a copy at the same time.  xxhash has only the
/// form that reads its input again; its building blocks below are the same code for each instruction set, and the tests compare every
/// length with the library.
namespace kvc::kernels {

constexpr size_t sum_block_lines = (XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN) / XXH_SECRET_CONSUME_RATE;
static_assert(XXH_STRIPE_LEN == line_bytes && sum_block_lines == 16);

/// The long form of XXH3 begins above 240 bytes; this takes whole lines only.
static inline bool can_sum_lines(size_t size) { return size > XXH3_MIDSIZE_MAX && size % line_bytes == 0; }

// Unnamed, because its members would otherwise be shared between the variants.
namespace {
struct LineSum {
  alignas(64) xxh_u64 lanes[XXH_ACC_NB] = XXH3_INIT_ACC;
  size_t lines_left, size;

  explicit LineSum(size_t size_) : lines_left(size_ / line_bytes), size(size_) {}

  /// Adds and copies the next lines; those at `next` are fetched meanwhile.
  template <bool stream>
  inline void copy(uint8_t *to, const uint8_t *from, size_t lines, const uint8_t *next) {
    while (lines != 0) {
      size_t line = (size / line_bytes - lines_left) % sum_block_lines, count = sum_block_lines - line;
      if (count > lines) count = lines;
      lines_left -= count;
      lines -= count;
      // The last line of all has a key of its own, and no scrambling after it.
      size_t keyed = lines_left == 0 ? count - 1 : count;
      part<stream>(to, from, keyed, XXH3_kSecret + line * XXH_SECRET_CONSUME_RATE, next);
      if (lines_left == 0) {
        const xxh_u8 *last_key = XXH3_kSecret + XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN - XXH_SECRET_LASTACC_START;
        part<stream>(to + keyed * line_bytes, from + keyed * line_bytes, 1, last_key, next);
      } else if (line + count == sum_block_lines) {
        XXH3_scrambleAcc(lanes, XXH3_kSecret + XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN);
      }
      to += count * line_bytes;
      from += count * line_bytes;
      next += count * line_bytes;
    }
  }

  inline uint64_t result() const {
    return XXH3_mergeAccs(lanes, XXH3_kSecret + XXH_SECRET_MERGEACCS_START, static_cast<xxh_u64>(size) * XXH_PRIME64_1);
  }

 private:
  /// The lanes are copied to where the compiler can see that no store touches them, and so keep to registers.
  template <bool stream>
  inline void part(uint8_t *to, const uint8_t *from, size_t lines, const xxh_u8 *key, const uint8_t *next) {
    alignas(64) xxh_u64 local[XXH_ACC_NB];
    memcpy(local, lanes, sizeof lanes);
    for (size_t i = 0; i < lines; ++i) {
      if (stream) prefetch_line(next + i * line_bytes);
      XXH3_accumulate_512(local, from + i * line_bytes, key + i * XXH_SECRET_CONSUME_RATE);
      if (stream) {
        line_stream(to + i * line_bytes, from + i * line_bytes);
      } else {
        line_copy(to + i * line_bytes, from + i * line_bytes);
      }
    }
    memcpy(lanes, local, sizeof lanes);
  }
};
}  // namespace

}  // namespace kvc::kernels
