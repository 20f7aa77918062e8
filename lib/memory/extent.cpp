#include "memory/extent.h"

#include <iterator>

#include "base/check.h"

namespace kvc::memory {

NodePool::~NodePool() {
  while (chunks_) {
    Chunk *chunk = chunks_;
    chunks_ = chunk->next;
    upstream_.deallocate(chunk, sizeof(Chunk), alignof(Chunk));
  }
}

void NodePool::reserve(uint64_t node_count) {
  while (node_count_ < node_count) {
    auto *chunk = static_cast<Chunk *>(upstream_.allocate(sizeof(Chunk), alignof(Chunk)));
    chunk->next = chunks_;
    chunks_ = chunk;
    for (Node &node : chunk->nodes) {
      node.next = free_;
      free_ = &node;
    }
    node_count_ += kChunkNodes;
  }
}

void *NodePool::do_allocate(size_t bytes, size_t alignment) {
  KVC_CHECK(bytes <= kNodeBytes && alignment <= alignof(Node) && free_);
  Node *node = free_;
  free_ = node->next;
  return node;
}

void NodePool::do_deallocate(void *p, size_t, size_t) {
  Node *node = static_cast<Node *>(p);
  node->next = free_;
  free_ = node;
}

Extents::Extents(uint32_t unit_count, std::pmr::memory_resource &resource)
    : pool_(resource), by_begin_(&pool_), by_size_(&pool_), unit_count_(unit_count), free_units_(unit_count) {
  KVC_CHECK(unit_count > 0);
  reserve();
  by_begin_.emplace(0, unit_count);
  by_size_.emplace(unit_count, 0);
}

/// Between live extents there are at most as many free pieces as live ones, and one more; each piece has a node in both trees.
void Extents::reserve() { pool_.reserve(2 * (live_count_ + 2)); }

/// Both trees keep their nodes: the order by begin cannot change, as no other piece lies between the old and the new begin.
void Extents::resize(ByBegin::iterator piece, uint32_t begin, uint32_t units) {
  auto size_node = by_size_.extract({piece->second, piece->first});
  size_node.value() = {units, begin};
  by_size_.insert(std::move(size_node));
  if (begin == piece->first) {
    piece->second = units;
    return;
  }
  const auto next = std::next(piece);
  auto begin_node = by_begin_.extract(piece);
  begin_node.key() = begin;
  begin_node.mapped() = units;
  by_begin_.insert(next, std::move(begin_node));
}

bool Extents::take(uint32_t *begin, uint32_t units, End end) noexcept {
  KVC_CHECK(units > 0);
  const auto best = by_size_.lower_bound({units, 0});
  if (best == by_size_.end()) return false;
  const auto [piece_units, piece_begin] = *best;
  const auto piece = by_begin_.find(piece_begin);
  if (piece_units == units) {
    *begin = piece_begin;
    by_begin_.erase(piece);
    by_size_.erase(best);
  } else if (end == End::kLow) {
    *begin = piece_begin;
    resize(piece, piece_begin + units, piece_units - units);
  } else {
    *begin = piece_begin + piece_units - units;
    resize(piece, piece_begin, piece_units - units);
  }
  free_units_ -= units;
  ++live_count_;
  return true;
}

void Extents::give(uint32_t begin, uint32_t units) noexcept {
  KVC_CHECK(live_count_ > 0 && units > 0 && units <= unit_count_ && begin <= unit_count_ - units);
  const uint32_t end = begin + units;
  const auto after = by_begin_.lower_bound(begin);
  const auto before = after == by_begin_.begin() ? by_begin_.end() : std::prev(after);
  KVC_CHECK(after == by_begin_.end() || after->first >= end);
  KVC_CHECK(before == by_begin_.end() || before->first + before->second <= begin);
  const bool joins_after = after != by_begin_.end() && after->first == end;
  const bool joins_before = before != by_begin_.end() && before->first + before->second == begin;
  if (joins_before && joins_after) {
    const uint32_t after_units = after->second;
    by_size_.erase({after_units, after->first});
    by_begin_.erase(after);
    resize(before, before->first, before->second + units + after_units);
  } else if (joins_before) {
    resize(before, before->first, before->second + units);
  } else if (joins_after) {
    resize(after, begin, units + after->second);
  } else {
    by_begin_.emplace_hint(after, begin, units);
    by_size_.emplace(units, begin);
  }
  free_units_ += units;
  --live_count_;
}

}  // namespace kvc::memory
