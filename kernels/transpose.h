#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/// Matrices of 1-, 2- and 4-byte elements turned over in tiles that fit registers: to[column][row] = from[row][column].
namespace kvc::kernels {

#if defined(__x86_64__)
static inline __m128i load_128(const uint8_t *from) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)); }
static inline void store_128(uint8_t *to, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i *>(to), value); }

/// 8 x 8 elements of 2 bytes: three rounds of interleaving with the row that lies four further.
static inline void transpose_8x8_16(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride) {
  __m128i a[8], b[8];
  for (size_t i = 0; i < 8; ++i) a[i] = load_128(from + i * from_stride);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 4; ++i) {
      b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
      b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (size_t i = 0; i < 8; ++i) a[i] = b[i];
  }
  for (size_t i = 0; i < 8; ++i) store_128(to + i * to_stride, a[i]);
}

static inline void transpose_4x4_32(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride) {
  __m128i a[4], b[4];
  for (size_t i = 0; i < 4; ++i) a[i] = load_128(from + i * from_stride);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 2; ++i) {
      b[2 * i] = _mm_unpacklo_epi32(a[i], a[i + 2]);
      b[2 * i + 1] = _mm_unpackhi_epi32(a[i], a[i + 2]);
    }
    for (size_t i = 0; i < 4; ++i) a[i] = b[i];
  }
  for (size_t i = 0; i < 4; ++i) store_128(to + i * to_stride, a[i]);
}
#endif

template <size_t element>
static inline void transpose_small(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, size_t rows, size_t columns) {
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) {
      memcpy(to + column * to_stride + row * element, from + row * from_stride + column * element, element);
    }
  }
}

/// Column tiles outside, rows inside; `rows_outside` turns that round.
template <size_t element, bool rows_outside>
static void transpose(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, size_t rows, size_t columns) {
  constexpr size_t tile = element == 2 ? 8 : 4;
  size_t outside = rows_outside ? rows : columns, inside = rows_outside ? columns : rows;
  for (size_t i = 0; i < outside; i += tile) {
    size_t thick = outside - i < tile ? outside - i : tile;
    for (size_t j = 0; j < inside; j += tile) {
      size_t wide = inside - j < tile ? inside - j : tile, row = rows_outside ? i : j, column = rows_outside ? j : i;
      uint8_t *target = to + column * to_stride + row * element;
      const uint8_t *source = from + row * from_stride + column * element;
#if defined(__x86_64__)
      if constexpr (element == 2) {
        if (thick == tile && wide == tile) {
          transpose_8x8_16(target, to_stride, source, from_stride);
          continue;
        }
      } else if constexpr (element == 4) {
        if (thick == tile && wide == tile) {
          transpose_4x4_32(target, to_stride, source, from_stride);
          continue;
        }
      }
#endif
      transpose_small<element>(target, to_stride, source, from_stride, rows_outside ? thick : wide, rows_outside ? wide : thick);
    }
  }
}

}  // namespace kvc::kernels
