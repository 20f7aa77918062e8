#pragma once
#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace kvc::memory {

/// An array that grows by whole chunks and never moves: the directory is sized at construction, so readers need no lock.
/// grow() is one thread at a time; find() and [] are any.
template <typename T, uint32_t kChunkItems>
class ChunkedTable {
 public:
  ChunkedTable(uint64_t item_max, std::pmr::memory_resource &resource)
      : resource_(resource), directory_((item_max + kChunkItems - 1) / kChunkItems, &resource) {}
  ~ChunkedTable() {
    for (std::atomic<T *> &entry : directory_) {
      T *items = entry.load(std::memory_order_relaxed);
      if (!items) break;
      for (uint32_t i = 0; i < kChunkItems; ++i) items[i].~T();
      resource_.deallocate(items, sizeof(T) * kChunkItems, alignof(T));
    }
  }
  ChunkedTable(const ChunkedTable &) = delete;
  ChunkedTable &operator=(const ChunkedTable &) = delete;

  uint64_t item_count() const { return item_count_; }
  bool can_grow() const { return item_count_ / kChunkItems < directory_.size(); }

  /// Adds a chunk of value-initialised items, at most up to item_max rounded up to chunks; throws std::bad_alloc.
  void grow() {
    void *memory = resource_.allocate(sizeof(T) * kChunkItems, alignof(T));
    T *items = static_cast<T *>(memory);
    for (uint32_t i = 0; i < kChunkItems; ++i) new (items + i) T();
    directory_[item_count_ / kChunkItems].store(items, std::memory_order_release);
    item_count_ += kChunkItems;
  }

  T &operator[](uint64_t index) const { return directory_[index / kChunkItems].load(std::memory_order_relaxed)[index % kChunkItems]; }

  /// nullptr when no such item was made yet.
  T *find(uint64_t index) const {
    if (index / kChunkItems >= directory_.size()) return nullptr;
    T *items = directory_[index / kChunkItems].load(std::memory_order_acquire);
    return items ? items + index % kChunkItems : nullptr;
  }

 private:
  std::pmr::memory_resource &resource_;
  std::pmr::vector<std::atomic<T *>> directory_;
  uint64_t item_count_ = 0;
};

}  // namespace kvc::memory
