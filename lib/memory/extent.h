#pragma once
#include <cstdint>
#include <map>
#include <memory_resource>
#include <set>
#include <utility>

namespace kvc::memory {

/// Fixed-size nodes for the two trees below, made ahead of need, so that giving an extent back can never fail for lack of memory.
class NodePool final : public std::pmr::memory_resource {
 public:
  explicit NodePool(std::pmr::memory_resource &upstream) : upstream_(upstream) {}
  ~NodePool() override;
  /// At least `node_count` nodes exist, in use or not; throws std::bad_alloc.
  void reserve(uint64_t node_count);

 private:
  static constexpr size_t kNodeBytes = 40;  // of libstdc++'s red-black trees with eight bytes of payload
  static constexpr size_t kChunkNodes = 128;
  struct Node {
    Node *next;
    unsigned char rest[kNodeBytes - sizeof(Node *)];
  };
  struct Chunk {
    Chunk *next;
    Node nodes[kChunkNodes];
  };

  void *do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void *p, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  std::pmr::memory_resource &upstream_;
  Chunk *chunks_ = nullptr;
  Node *free_ = nullptr;
  uint64_t node_count_ = 0;
};

/// Contiguous runs of units (the caller says how large one is) out of [0, unit_count): best fit, the lowest address among equals, coalesced
/// when given back.  All O(log n) in the number of free pieces.  Not thread-safe.
class Extents {
 public:
  Extents(uint32_t unit_count, std::pmr::memory_resource &resource);

  /// Makes one more take() and the give() of everything taken sure to find their nodes.  Throws std::bad_alloc, nothing changed.
  void reserve();
  enum class End { kLow, kHigh };
  /// False: no free piece is that long.  After reserve() only.  `end`: which end of the chosen piece is cut off.
  [[nodiscard]] bool take(uint32_t *begin, uint32_t units, End end) noexcept;
  /// What was taken, whole.  Anything that overlaps free units is a bug: KVC_CHECK.
  void give(uint32_t begin, uint32_t units) noexcept;

  uint64_t free_units() const { return free_units_; }
  uint32_t largest_units() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  size_t piece_count() const { return by_begin_.size(); }

 private:
  using ByBegin = std::pmr::map<uint32_t, uint32_t>;              // begin -> units
  using BySize = std::pmr::set<std::pair<uint32_t, uint32_t>>;    // units, begin
  void resize(ByBegin::iterator piece, uint32_t begin, uint32_t units);

  NodePool pool_;
  ByBegin by_begin_;
  BySize by_size_;
  const uint32_t unit_count_;
  uint64_t free_units_;
  uint64_t live_count_ = 0;
};

}  // namespace kvc::memory
