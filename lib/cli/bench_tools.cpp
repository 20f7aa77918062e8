#include "cli/bench_tools.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvc::cli {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void *stream_avx512(void *to, const void *from, size_t bytes) {
  auto *t = static_cast<uint8_t *>(to);
  const auto *f = static_cast<const uint8_t *>(from);
  for (size_t i = 0; i < bytes; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i *>(t + i), _mm512_loadu_si512(f + i));
  return to;
}

__attribute__((target("avx2"))) void *stream_avx2(void *to, const void *from, size_t bytes) {
  auto *t = static_cast<uint8_t *>(to);
  const auto *f = static_cast<const uint8_t *>(from);
  for (size_t i = 0; i < bytes; i += 32) _mm256_stream_si256(reinterpret_cast<__m256i *>(t + i), _mm256_loadu_si256(reinterpret_cast<const __m256i *>(f + i)));
  return to;
}

void *stream_sse2(void *to, const void *from, size_t bytes) {
  auto *t = static_cast<uint8_t *>(to);
  const auto *f = static_cast<const uint8_t *>(from);
  for (size_t i = 0; i < bytes; i += 16) _mm_stream_si128(reinterpret_cast<__m128i *>(t + i), _mm_loadu_si128(reinterpret_cast<const __m128i *>(f + i)));
  return to;
}
#endif

}  // namespace

Pool::Pool(uint64_t bytes) : bytes_((bytes + kHugePageBytes - 1) & ~(kHugePageBytes - 1)) {
  need_memory(bytes_);
  void *mapped = mmap(nullptr, bytes_ + kHugePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + std::to_string(bytes_) + " bytes to measure with");
  auto *begin = static_cast<uint8_t *>(mapped);
  const uint64_t head = -reinterpret_cast<uintptr_t>(begin) & (kHugePageBytes - 1);
  if (head) munmap(begin, head);
  munmap(begin + head + bytes_, kHugePageBytes - head);
  data_ = begin + head;
  madvise(data_, bytes_, MADV_HUGEPAGE);
  Noise noise{bytes_};
  for (uint64_t i = 0; i < bytes_; i += 8) {
    const uint64_t word = noise.next();
    std::memcpy(data_ + i, &word, 8);
  }
}

Pool::~Pool() { munmap(data_, bytes_); }

void need_memory(uint64_t bytes) {
  std::FILE *file = std::fopen("/proc/meminfo", "r");
  if (!file) return;
  char line[256];
  unsigned long long kib = 0;
  bool known = false;
  while (!known && std::fgets(line, sizeof line, file)) known = std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
  std::fclose(file);
  if (known && bytes > kib * 1024)
    throw std::runtime_error(std::to_string(bytes >> 20) + " MiB more are needed to measure past the caches, " + std::to_string(kib >> 10) + " MiB are available");
}

Copy copy_stream() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return stream_avx512;
  if (__builtin_cpu_supports("avx2")) return stream_avx2;
  return stream_sse2;
#else
  return std::memcpy;
#endif
}

void copy_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

double now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double Samples::quantile(double q) {
  if (values_.empty()) throw std::runtime_error("nothing was measured");
  const auto at = values_.begin() + static_cast<int64_t>(q * static_cast<double>(values_.size() - 1));
  std::nth_element(values_.begin(), at, values_.end());
  return *at;
}

void race(std::span<Contestant> contestants, double seconds, uint64_t warm, uint64_t rounds_max) {
  uint64_t place = 0;
  double end = now_ns() + seconds * 1e9;
  for (uint64_t round = 0; round < warm + 5 || (round < rounds_max && now_ns() < end); round++) {
    if (round == warm) end = now_ns() + seconds * 1e9;
    for (size_t i = 0; i < contestants.size(); i++, place++) {
      Contestant &c = contestants[(i + round) % contestants.size()];
      if (c.before) c.before(place);
      std::atomic_thread_fence(std::memory_order_seq_cst);  // nobody waits for the stores of the one before
      const double begin = now_ns();
      c.run(place);
      const double ns = now_ns() - begin;
      if (c.after) c.after(place);
      if (round >= warm) c.ns.add(ns);
    }
  }
}

double fastest(std::span<Contestant> contestants) {
  double least = contestants[0].ns.median();
  for (Contestant &c : contestants) least = std::min(least, c.ns.median());
  return least;
}

void must(kvc_status status, const kvc_error &error) {
  if (status != KVC_OK) throw std::runtime_error(std::string(kvc_status_name(status)) + ": " + error.message);
}

StoreHandles::StoreHandles(uint64_t memory_bytes, const kvc_shape *shape, uint32_t flags) {
  need_memory(memory_bytes);
  kvc_error error;
  KVC_INIT(&error);
  kvc_store_options options;
  KVC_INIT(&options);
  options.memory_bytes = memory_bytes;
  options.flags = flags;
  options.lease_ms = KVC_FOREVER;
  kvc_scope_options scope_options;
  KVC_INIT(&scope_options);
  scope_options.model = "bench";
  scope_options.shape = shape;
  must(kvc_open(&store, "mem:", &options, &error), error);
  const kvc_status status = kvc_scope_create(&scope, store, &scope_options, &error);
  if (status != KVC_OK) (void)kvc_close(store, nullptr);
  must(status, error);
}

StoreHandles::~StoreHandles() { (void)kvc_close(store, nullptr); }

}  // namespace kvc::cli
