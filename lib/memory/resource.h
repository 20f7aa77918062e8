#pragma once
#include <atomic>
#include <cstdint>
#include <memory_resource>

namespace kvc::memory {

/// All memory of the library that grows with use, but the arena: mimalloc (mi_*, never the host's malloc) behind std::pmr, counted,
/// limited and failed in tests.  From 2 MiB on, a block is a mapping of its own in huge pages (advice only), given back to the system when freed.
/// Throws std::bad_alloc (fault point "memory.resource.allocate", or over the limit); lib/store turns that into KVC_ERR_NO_MEMORY.
/// In sanitizer builds the blocks come from the sanitizer's allocator, which sees leaks and stale reads that mimalloc would hide.
/// Threads: any.
class Resource final : public std::pmr::memory_resource {
 public:
  explicit Resource(uint64_t limit_bytes = UINT64_MAX) : limit_bytes_(limit_bytes) {}
  Resource(const Resource &) = delete;
  Resource &operator=(const Resource &) = delete;

  /// Bytes as they were requested, without the allocator's rounding.
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void *p, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }
  bool count(uint64_t bytes);

  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

}  // namespace kvc::memory
