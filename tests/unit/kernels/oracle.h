#pragma once
#include "kernels/rows.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

/// What the kernels should do, written another way: numbers as doubles and powers of two instead of bit patterns, addresses from the text
/// of rows.h.
namespace kvc::kernels::oracle {

struct Format {
  int bytes, mantissa_bits, exponent_min, exponent_max;
};
inline Format format_of(Dtype dtype) {
  if (dtype == Dtype::f32) return {4, 23, -126, 127};
  if (dtype == Dtype::f16) return {2, 10, -14, 15};
  return {2, 7, -126, 127};
}

inline uint32_t load(const uint8_t *from, int bytes) {
  uint32_t bits = 0;
  for (int i = 0; i < bytes; ++i) bits |= static_cast<uint32_t>(from[i]) << (8 * i);
  return bits;
}
inline void store(uint8_t *to, uint32_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(bits >> (8 * i));
}

struct Number {
  bool negative, nan, infinite;
  double magnitude;
  uint32_t payload;  // of a NaN, aligned to 23 bits
};

inline Number decode(uint32_t bits, Format format) {
  uint32_t exponent_ones = static_cast<uint32_t>(2 * format.exponent_max + 1);
  uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1), exponent_field = bits >> format.mantissa_bits & exponent_ones;
  Number number{(bits >> (8 * format.bytes - 1)) != 0, false, false, 0, 0};
  if (exponent_field == exponent_ones) {
    number.nan = mantissa != 0;
    number.infinite = mantissa == 0;
    number.payload = mantissa << (23 - format.mantissa_bits);
  } else if (exponent_field == 0) {
    number.magnitude = std::ldexp(mantissa, format.exponent_min - format.mantissa_bits);
  } else {
    double significand = 1.0 + std::ldexp(mantissa, -format.mantissa_bits);
    number.magnitude = std::ldexp(significand, static_cast<int>(exponent_field) - format.exponent_max);
  }
  return number;
}

inline uint32_t encode(const Number &number, Format format) {
  uint32_t sign = number.negative ? 1u << (8 * format.bytes - 1) : 0;
  uint32_t infinity = static_cast<uint32_t>(2 * format.exponent_max + 1) << format.mantissa_bits;
  if (number.nan) return sign | infinity | 1u << (format.mantissa_bits - 1) | number.payload >> (23 - format.mantissa_bits);
  if (number.infinite) return sign | infinity;
  if (number.magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(number.magnitude), format.exponent_min);
  double steps = std::nearbyint(std::ldexp(number.magnitude, format.mantissa_bits - exponent));  // ties to even
  double rounded = std::ldexp(steps, exponent - format.mantissa_bits);
  if (rounded >= std::ldexp(1.0, format.exponent_max + 1)) return sign | infinity;
  if (rounded < std::ldexp(1.0, format.exponent_min)) return sign | static_cast<uint32_t>(steps);
  exponent = std::ilogb(rounded);
  uint32_t mantissa = static_cast<uint32_t>(std::ldexp(rounded, format.mantissa_bits - exponent)) - (1u << format.mantissa_bits);
  return sign | static_cast<uint32_t>(exponent + format.exponent_max) << format.mantissa_bits | mantissa;
}

inline void convert(uint8_t *to, Dtype to_dtype, const uint8_t *from, Dtype from_dtype) {
  if (to_dtype == from_dtype) {
    for (uint32_t i = 0; i < dtype_bytes(to_dtype); ++i) to[i] = from[i];
    return;
  }
  Format target = format_of(to_dtype), source = format_of(from_dtype);
  store(to, encode(decode(load(from, source.bytes), source), target), target.bytes);
}

inline uint64_t caller_offset(const RowsSide &rows, uint64_t i, uint64_t head, uint64_t d) {
  uint64_t slot = rows.slot_begin + i, block = 0, inside = slot;
  if (rows.blocks != nullptr) {
    block = static_cast<uint64_t>(rows.blocks[slot / rows.block_tokens]);
    inside = slot % rows.block_tokens;
  }
  uint64_t row = block * rows.block_stride + inside * rows.token_stride + head * rows.head_stride;
  return row + d / rows.dim_group * rows.dim_stride + d % rows.dim_group * dtype_bytes(rows.dtype);
}

/// Moves into `to`, a copy of the destination's bytes; `from` are the source's.
inline void move(bool out, uint8_t *caller, uint8_t *stored, const RowsSide &rows, const PageSide &page, const Move &what) {
  for (uint32_t head = 0; head < what.head_count; ++head) {
    for (uint32_t token = 0; token < what.token_count; ++token) {
      for (uint32_t d = 0; d < page.dim; ++d) {
        uint64_t row = static_cast<uint64_t>(what.head_begin + head) * page.page_tokens + what.token_begin + token;
        uint8_t *inside = stored + (row * page.dim + d) * dtype_bytes(page.dtype);
        uint8_t *outside = caller + caller_offset(rows, token, head, d);
        if (out) {
          convert(outside, rows.dtype, inside, page.dtype);
        } else {
          convert(inside, page.dtype, outside, rows.dtype);
        }
      }
    }
  }
}

/// The variants that this machine runs; base is always one.
inline std::vector<const Table *> tables() {
  std::vector<const Table *> found;
  for (const char *name : {"base", "avx2", "avx512"}) {
    if (const Table *one = table_named(name)) found.push_back(one);
  }
  return found;
}

}  // namespace kvc::kernels::oracle
