#pragma once
#include <cstdint>

namespace kvc::memory {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

/// `bytes` of fresh private memory at a multiple of `alignment_bytes`, a power of two of at least a page; `flags` of mmap come on top.
/// nullptr and errno when the system has none.  munmap() of these bytes gives it back.
uint8_t *map_aligned(uint64_t bytes, uint64_t alignment_bytes, int flags);

}  // namespace kvc::memory
