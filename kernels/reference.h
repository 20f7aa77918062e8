#pragma once
#include "kernels/rows.h"

#include <cstring>

/// The scalar meaning of every element: address, conversion, move.  Integer arithmetic on bits alone, so that no rounding mode, no
/// contraction and no flush-to-zero setting of the host can change a result.  The variants are tested against this, and use it where
/// speed does not matter. Everything in the headers of this folder is `static`: each variant is compiled for its own instruction set, and
/// a function shared between them (an ordinary inline one) would let the linker put AVX-512 code in front of a machine that has none.
namespace kvc::kernels {

static inline uint32_t element_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : dtype == Dtype::f16 || dtype == Dtype::bf16 ? 2 : 1; }

static inline uint32_t f32_from_bf16(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x00400000 : bits;
}

static inline uint16_t bf16_from_f32(uint32_t bits) {
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x0040);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline uint32_t f32_from_f16(uint16_t value) {
  uint32_t sign = (value & 0x8000u) << 16, exponent = value >> 10 & 31, mantissa = value & 0x3FF;
  if (exponent == 31) return sign | 0x7F800000 | mantissa << 13 | (mantissa != 0 ? 0x00400000 : 0);
  if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
  if (mantissa == 0) return sign;
  uint32_t shift = static_cast<uint32_t>(__builtin_clz(mantissa)) - 21;  // brings the leading bit to bit 10
  return sign | (113 - shift) << 23 | (mantissa << shift & 0x3FF) << 13;
}

static inline uint16_t f16_from_f32(uint32_t bits) {
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // 65520, half way past the largest, and up
  if (magnitude >= 0x38800000) {                                             // 2^-14: normal
    return static_cast<uint16_t>(sign | (magnitude + 0xFFF + (magnitude >> 13 & 1) - 0x38000000) >> 13);
  }
  if (magnitude <= 0x33000000) return static_cast<uint16_t>(sign);  // 2^-25, half of the smallest, and down
  uint32_t shift = 126 - (magnitude >> 23), mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  uint32_t half = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
  half += rest > middle || (rest == middle && (half & 1) != 0);
  return static_cast<uint16_t>(sign | half);
}

/// One element of any convertible pair; `to` and `from` need no alignment.
static inline void convert_element(uint8_t *to, Dtype to_dtype, const uint8_t *from, Dtype from_dtype) {
  if (to_dtype == from_dtype) {
    memcpy(to, from, element_bytes(to_dtype));
    return;
  }
  uint32_t wide = 0;
  uint16_t narrow = 0;
  if (from_dtype == Dtype::f32) {
    memcpy(&wide, from, 4);
  } else {
    memcpy(&narrow, from, 2);
    wide = from_dtype == Dtype::f16 ? f32_from_f16(narrow) : f32_from_bf16(narrow);
  }
  if (to_dtype == Dtype::f32) {
    memcpy(to, &wide, 4);
  } else {
    narrow = to_dtype == Dtype::f16 ? f16_from_f32(wide) : bf16_from_f32(wide);
    memcpy(to, &narrow, 2);
  }
}

/// Address of (token of the move, head of the move, first dim) on the caller's side.
static inline uint8_t *row_address(const RowsSide &rows, uint64_t token, uint64_t head) {
  uint64_t slot = rows.slot_begin + token, block = 0;
  if (rows.blocks != nullptr) {
    block = static_cast<uint64_t>(rows.blocks[slot / rows.block_tokens]);
    slot %= rows.block_tokens;
  }
  return rows.data + block * rows.block_stride + slot * rows.token_stride + head * rows.head_stride;
}

static inline uint8_t *page_row(const PageSide &page, uint64_t token, uint64_t head) {
  return page.data + (head * page.page_tokens + token) * page.dim * element_bytes(page.dtype);
}

/// Element by element: right for every layout.
template <bool out>
static void move_reference(const RowsSide &rows, const PageSide &page, const Move &move) {
  uint32_t rows_bytes = element_bytes(rows.dtype), page_bytes = element_bytes(page.dtype);
  for (uint32_t head = 0; head < move.head_count; ++head) {
    for (uint32_t token = 0; token < move.token_count; ++token) {
      uint8_t *row = row_address(rows, token, head);
      uint8_t *stored = page_row(page, move.token_begin + token, move.head_begin + head);
      for (uint32_t d = 0; d < page.dim; ++d) {
        uint8_t *element = row + d / rows.dim_group * rows.dim_stride + static_cast<uint64_t>(d % rows.dim_group) * rows_bytes;
        if (out) {
          convert_element(element, rows.dtype, stored + static_cast<uint64_t>(d) * page_bytes, page.dtype);
        } else {
          convert_element(stored + static_cast<uint64_t>(d) * page_bytes, page.dtype, element, rows.dtype);
        }
      }
    }
  }
}

}  // namespace kvc::kernels
