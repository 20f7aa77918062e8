#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Copies in cache lines of 64 bytes: plain ones, and ones that bypass the cache.
namespace kvc::kernels {

constexpr size_t line_bytes = 64;

/// One line with plain stores; no alignment needed.
static inline void line_copy(uint8_t *to, const uint8_t *from) {
#if defined(__AVX512F__)
  _mm512_storeu_si512(to, _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + 32));
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + 32), high);
#else
  memcpy(to, from, line_bytes);
#endif
}

/// One line past the cache; `to` is aligned to 64.
static inline void line_stream(uint8_t *to, const uint8_t *from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i *>(to), _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + 32));
  _mm256_stream_si256(reinterpret_cast<__m256i *>(to), low);
  _mm256_stream_si256(reinterpret_cast<__m256i *>(to + 32), high);
#elif defined(__x86_64__)
  for (size_t i = 0; i < line_bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i *>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i)));
  }
#else
  memcpy(to, from, line_bytes);
#endif
}

/// Ends a series of line_stream: makes them visible in order with what follows.
static inline void stream_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// How far ahead of a streamed copy its source is fetched, into the second-level cache (see README.md for the measurement).
constexpr size_t ahead_bytes = 4096;

/// Never faults, so it may name an address past the end of an array.
static inline void prefetch_line(const uint8_t *from) { __builtin_prefetch(from, 0, 2); }

/// A piece whose destination is likely to be read soon.  Short ones are copied without a call, four lines loaded before the first is
/// stored: a load behind a store whose address has the same low twelve bits would wait for it, and rows of different heads are such
/// addresses.
static inline void copy_cached(uint8_t *to, const uint8_t *from, size_t bytes) {
#if defined(__AVX512F__)
  if (bytes <= 2048 && bytes % line_bytes == 0) {
    size_t i = 0;
    for (; i + 4 * line_bytes <= bytes; i += 4 * line_bytes) {
      __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
      __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
      _mm512_storeu_si512(to + i, a);
      _mm512_storeu_si512(to + i + 64, b);
      _mm512_storeu_si512(to + i + 128, c);
      _mm512_storeu_si512(to + i + 192, d);
    }
    for (; i < bytes; i += line_bytes) line_copy(to + i, from + i);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

/// Whole lines that bypass the cache, to an aligned destination, while the lines at `next` are fetched: line by line, since bursts of
/// either overlap less.
static inline void stream_lines(uint8_t *to, const uint8_t *from, size_t bytes, const uint8_t *next) {
  for (size_t i = 0; i < bytes; i += line_bytes) {
    prefetch_line(next + i);
    line_stream(to + i, from + i);
  }
}

/// Whole lines of the destination bypass the cache, its ragged ends do not.  Meanwhile the source is fetched ahead: a long piece its own
/// lines and then the first ones at `next`, a short one the lines at `next`, which is then the piece that ahead_pieces() says.
static inline void copy_streamed(uint8_t *to, const uint8_t *from, size_t bytes, const uint8_t *next) {
  size_t head = (line_bytes - (reinterpret_cast<uintptr_t>(to) & (line_bytes - 1))) & (line_bytes - 1);
  if (bytes < head + line_bytes) {
    prefetch_line(next);
    memcpy(to, from, bytes);
    return;
  }
  if (head != 0) memcpy(to, from, head);
  size_t tail = (bytes - head) % line_bytes, end = bytes - tail;
  size_t own_end = end > head + ahead_bytes ? end - ahead_bytes : head;
  if (own_end != head) stream_lines(to + head, from + head, own_end - head, from + head + ahead_bytes);
  stream_lines(to + own_end, from + own_end, end - own_end, next);
  if (tail != 0) memcpy(to + end, from + end, tail);
}

/// How many pieces of this size copy_streamed's `next` lies ahead.
static inline uint32_t ahead_pieces(size_t piece_bytes) {
  return piece_bytes >= ahead_bytes ? 1 : static_cast<uint32_t>(ahead_bytes / piece_bytes);
}

}  // namespace kvc::kernels
