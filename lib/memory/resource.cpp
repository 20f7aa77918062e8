#include "memory/resource.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/fault.h"
#include "memory/map.h"

// mimalloc's, under the names that lib/mimalloc.cmake gives them.
extern "C" void *kvc_mi_malloc_aligned(std::size_t bytes, std::size_t alignment);
extern "C" void kvc_mi_free_size_aligned(void *p, std::size_t bytes, std::size_t alignment);

namespace kvc::memory {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Past its own limit the sanitizer ends the process, nothrow or not.
constexpr std::size_t kSanitizerBytesMax = std::size_t{1} << 38;

void *system_allocate(std::size_t bytes, std::size_t alignment) {
  return bytes > kSanitizerBytesMax ? nullptr : ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
}
void system_free(void *p, std::size_t bytes, std::size_t alignment) { ::operator delete(p, bytes, std::align_val_t(alignment)); }
#else
/// Tables of that size are walked at random, where a miss of the address translation comes with each step: they get huge pages.
bool is_mapped(std::size_t bytes) { return bytes >= kHugePageBytes; }

void *system_allocate(std::size_t bytes, std::size_t alignment) {
  if (!is_mapped(bytes)) return kvc_mi_malloc_aligned(bytes, alignment);
  void *p = map_aligned(bytes, std::max<uint64_t>(alignment, kHugePageBytes), 0);
  if (p) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void system_free(void *p, std::size_t bytes, std::size_t alignment) {
  if (is_mapped(bytes)) {
    munmap(p, bytes);
  } else {
    kvc_mi_free_size_aligned(p, bytes, alignment);
  }
}
#endif

}  // namespace

/// Never over the limit, not even for a moment: a concurrent small request must not fail because of a large one that is being refused.
bool Resource::count(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (used > limit_bytes_ || bytes > limit_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void *Resource::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (KVC_FAULT("memory.resource.allocate") || !count(bytes)) throw std::bad_alloc();
  void *p = system_allocate(bytes, alignment);
  if (!p) {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    throw std::bad_alloc();
  }
  return p;
}

void Resource::do_deallocate(void *p, std::size_t bytes, std::size_t alignment) {
  const uint64_t before = used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  KVC_CHECK(before >= bytes);
  system_free(p, bytes, alignment);
}

}  // namespace kvc::memory
