#pragma once
#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace kvc::seq {

/// Nodes by the tick they had when they were queued, least first.  What became of one since is looked at when it comes to the top.
class LruHeap {
 public:
  struct Entry {
    uint64_t tick;
    uint32_t id, generation;
  };

  explicit LruHeap(std::pmr::memory_resource *resource) : entries_(resource) {}
  bool empty() const { return entries_.empty(); }
  bool full() const { return entries_.size() == entries_.capacity(); }
  const Entry &top() const { return entries_.front(); }

  /// Room for `count` entries.  Throws std::bad_alloc.
  void reserve(uint64_t count) {
    if (entries_.capacity() < count) entries_.reserve(std::max<size_t>(count, entries_.capacity() + entries_.capacity() / 8));
  }
  /// There must be room.
  void push(const Entry &entry) {
    entries_.push_back(entry);
    std::push_heap(entries_.begin(), entries_.end(), later);
  }
  void pop() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    entries_.pop_back();
  }
  template <typename IsStale>
  void compact(IsStale &&is_stale) {
    std::erase_if(entries_, is_stale);
    std::make_heap(entries_.begin(), entries_.end(), later);
  }
  void clear() { entries_.clear(); }

 private:
  static constexpr auto later = [](const Entry &a, const Entry &b) { return a.tick > b.tick; };
  std::pmr::vector<Entry> entries_;
};

}  // namespace kvc::seq
