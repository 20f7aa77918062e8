/* Copies timed in C, so that the baseline has no interpreter in it; and the comparison of what was read.
 * worker.py builds it: cc -O3 -march=native -shared -fPIC. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Blocks of `bytes` at source + from[i] to destination + to[i]; returns nanoseconds. */
uint64_t copy_libc(char *destination, const uint64_t *to, const char *source, const uint64_t *from, uint64_t count, uint64_t bytes) {
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < count; i++) memcpy(destination + to[i], source + from[i], bytes);
  return now_ns() - begin;
}

/* The same with stores that pass the caches by; blocks are aligned to 64 and multiples of 256 bytes. */
uint64_t copy_stream(char *destination, const uint64_t *to, const char *source, const uint64_t *from, uint64_t count, uint64_t bytes) {
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < count; i++) {
    char *d = destination + to[i];
    const char *s = source + from[i];
#if defined(__AVX512F__)
    for (uint64_t at = 0; at < bytes; at += 256) {
      const __m512i a = _mm512_loadu_si512(s + at), b = _mm512_loadu_si512(s + at + 64);
      const __m512i c = _mm512_loadu_si512(s + at + 128), e = _mm512_loadu_si512(s + at + 192);
      _mm512_stream_si512((void *)(d + at), a);
      _mm512_stream_si512((void *)(d + at + 64), b);
      _mm512_stream_si512((void *)(d + at + 128), c);
      _mm512_stream_si512((void *)(d + at + 192), e);
    }
#elif defined(__SSE2__)
    for (uint64_t at = 0; at < bytes; at += 16) _mm_stream_si128((__m128i *)(void *)(d + at), _mm_loadu_si128((const __m128i *)(const void *)(s + at)));
#else
    memcpy(d, s, bytes);
#endif
  }
#ifdef __SSE2__
  _mm_sfence();
#endif
  return now_ns() - begin;
}

/* The first block that differs; `count` if none does. */
uint64_t first_difference(const char *destination, const uint64_t *to, const char *source, const uint64_t *from, uint64_t count, uint64_t bytes) {
  for (uint64_t i = 0; i < count; i++)
    if (memcmp(destination + to[i], source + from[i], bytes) != 0) return i;
  return count;
}

/* Numbers of splitmix64: no two blocks of an arena are equal. */
void fill(uint64_t *words, uint64_t count, uint64_t seed) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    words[i] = z ^ (z >> 31);
  }
}
