#include "memory/map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace kvc::memory {

/// Maps `alignment_bytes` more and gives both ends back.
uint8_t *map_aligned(uint64_t bytes, uint64_t alignment_bytes, int flags) {
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > INT64_MAX - page_bytes || alignment_bytes > INT64_MAX) {
    errno = ENOMEM;
    return nullptr;
  }
  const uint64_t whole_bytes = (bytes + page_bytes - 1) & ~(page_bytes - 1);
  void *mapped = mmap(nullptr, whole_bytes + alignment_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto *begin = static_cast<uint8_t *>(mapped);
  const uint64_t head_bytes = -reinterpret_cast<uintptr_t>(begin) & (alignment_bytes - 1);
  if (head_bytes > 0) munmap(begin, head_bytes);
  munmap(begin + head_bytes + whole_bytes, alignment_bytes - head_bytes);
  return begin + head_bytes;
}

}  // namespace kvc::memory
