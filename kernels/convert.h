#pragma once
#include "kernels/reference.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

/// Spans of numbers from one type to another.  Vectors widen to f32 and narrow again; bf16 is done in integers because the instruction
/// for it flushes subnormals.
namespace kvc::kernels {

#if defined(__AVX512F__)
constexpr size_t lanes = 16;
using Wide = __m512i;

static inline Wide quiet(Wide bits) {
  __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)), _mm512_set1_epi32(0x7F800000));
  return _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x00400000));
}
template <Dtype dtype>
static inline Wide load_wide(const uint8_t *from) {
  if constexpr (dtype == Dtype::f32) return _mm512_loadu_si512(from);
  __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  if constexpr (dtype == Dtype::f16) return _mm512_castps_si512(_mm512_cvtph_ps(narrow));
  return quiet(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}
template <Dtype dtype>
static inline void store_wide(uint8_t *to, Wide bits) {
  if constexpr (dtype == Dtype::f32) {
    _mm512_storeu_si512(to, bits);
  } else if constexpr (dtype == Dtype::f16) {
    __m256i half = _mm512_cvtps_ph(_mm512_castsi512_ps(bits), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), half);
  } else {
    __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)), _mm512_set1_epi32(0x7F800000));
    Wide odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    Wide rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x00400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
}
#elif defined(__AVX2__) && defined(__F16C__)
constexpr size_t lanes = 8;
using Wide = __m256i;

static inline Wide nan_mask(Wide bits) {
  return _mm256_cmpgt_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)), _mm256_set1_epi32(0x7F800000));
}
static inline Wide quiet(Wide bits) { return _mm256_or_si256(bits, _mm256_and_si256(nan_mask(bits), _mm256_set1_epi32(0x00400000))); }
template <Dtype dtype>
static inline Wide load_wide(const uint8_t *from) {
  if constexpr (dtype == Dtype::f32) return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
  if constexpr (dtype == Dtype::f16) return _mm256_castps_si256(_mm256_cvtph_ps(narrow));
  return quiet(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}
template <Dtype dtype>
static inline void store_wide(uint8_t *to, Wide bits) {
  if constexpr (dtype == Dtype::f32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bits);
  } else if constexpr (dtype == Dtype::f16) {
    __m128i half = _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), half);
  } else {
    Wide odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    Wide rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet(bits), nan_mask(bits)), 16);
    __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), narrow);
  }
}
#endif

template <Dtype to_dtype, Dtype from_dtype>
static void convert_pair(uint8_t *to, const uint8_t *from, size_t count) {
  constexpr size_t to_bytes = to_dtype == Dtype::f32 ? 4 : 2, from_bytes = from_dtype == Dtype::f32 ? 4 : 2;
  size_t i = 0;
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__F16C__))
  for (; i + lanes <= count; i += lanes) store_wide<to_dtype>(to + i * to_bytes, load_wide<from_dtype>(from + i * from_bytes));
#endif
  for (; i < count; ++i) convert_element(to + i * to_bytes, to_dtype, from + i * from_bytes, from_dtype);
}

/// `count` consecutive elements, of two different convertible types.
static void convert_span(uint8_t *to, Dtype to_dtype, const uint8_t *from, Dtype from_dtype, size_t count) {
  if (to_dtype == Dtype::f32) {
    if (from_dtype == Dtype::f16) return convert_pair<Dtype::f32, Dtype::f16>(to, from, count);
    return convert_pair<Dtype::f32, Dtype::bf16>(to, from, count);
  }
  if (to_dtype == Dtype::f16) {
    if (from_dtype == Dtype::f32) return convert_pair<Dtype::f16, Dtype::f32>(to, from, count);
    return convert_pair<Dtype::f16, Dtype::bf16>(to, from, count);
  }
  if (from_dtype == Dtype::f32) return convert_pair<Dtype::bf16, Dtype::f32>(to, from, count);
  return convert_pair<Dtype::bf16, Dtype::f16>(to, from, count);
}

}  // namespace kvc::kernels
