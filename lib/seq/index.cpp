#include "seq/index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fault.h"

namespace kvc::seq {
namespace {

/// Names are digests or short keys as they stand, so every byte takes part; multiply-and-fold as in wyhash.
uint64_t mix(const Name &name) {
  uint64_t w[4];
  std::memcpy(w, name.data(), sizeof w);
  const auto fold = [](uint64_t a, uint64_t b) {
    __extension__ using uint128 = unsigned __int128;
    const auto p = static_cast<uint128>(a) * b;
    return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  };
  return fold(fold(w[0] ^ 0x9E3779B97F4A7C15ull, w[1] ^ 0xE7037ED1A0B428DBull) ^ 0x8EBC6AF09C88C6E3ull,
              fold(w[2] ^ 0x589965CC75374CC3ull, w[3] ^ 0x1D8E4E27C47D124Full) ^ 0xA0761D6478BD642Full);
}
uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

/// Readers without the lock look at flags (held): every change is one store.
void set_flags(Node &node, uint32_t flags) { __atomic_store_n(&node.flags, flags, __ATOMIC_RELAXED); }

constexpr auto later = [](const auto &a, const auto &b) { return a.tick > b.tick; };  // least tick on top

}  // namespace

Index::Index(std::pmr::memory_resource *resource, NodeSink *sink)
    : resource_(resource), sink_(sink), buckets_(1024, resource), heap_(resource) {
  blocks_ = static_cast<Block *>(resource_->allocate(kBlocksMax * sizeof(Block), alignof(Block)));  // touched as it fills
}

Index::~Index() {
  for (uint32_t b = 0; b < block_count_;) {
    const uint32_t count = b < kSmallBlocks ? 1 : kSmallBlocks;
    resource_->deallocate(blocks_[b].nodes, count * kBlock * sizeof(Node), alignof(Node));
    resource_->deallocate(blocks_[b].rests, count * kBlock * sizeof(Rest), alignof(Rest));
    b += count;
  }
  resource_->deallocate(blocks_, kBlocksMax * sizeof(Block), alignof(Block));
}

void Index::add_blocks(uint32_t block) {
  if (block >= kBlocksMax) throw std::bad_alloc();
  const uint32_t count = block < kSmallBlocks ? 1 : kSmallBlocks;
  auto *nodes = static_cast<Node *>(resource_->allocate(count * kBlock * sizeof(Node), alignof(Node)));
  Rest *rests;
  try {
    rests = static_cast<Rest *>(resource_->allocate(count * kBlock * sizeof(Rest), alignof(Rest)));
  } catch (...) {
    resource_->deallocate(nodes, count * kBlock * sizeof(Node), alignof(Node));
    throw;
  }
  for (uint32_t i = 0; i < count; i++) blocks_[block + i] = {nodes + i * kBlock, rests + i * kBlock};
  block_count_ += count;
}

void Index::grow_buckets(size_t count) {
  std::pmr::vector<Bucket> fresh(count, buckets_.get_allocator());
  buckets_.swap(fresh);
  for (const Bucket &b : fresh)
    if (b.id) bucket_insert(b.id);
}

void Index::reserve(uint32_t count) {
  if (KVC_FAULT("seq.index.reserve")) throw std::bad_alloc();
  const uint64_t wanted = live_count_ + reserved_ + count;
  while ((named_count_ + reserved_ + count) * 4 > buckets_.size() * 3) grow_buckets(buckets_.size() * 2);
  if (heap_.capacity() < wanted + 1) heap_.reserve(std::max<size_t>(wanted + 1, heap_.capacity() + heap_.capacity() / 8));
  while (free_count_ < reserved_ + count) {  // fresh nodes go to the free list first: one source for insert
    if (node_count_ / kBlock >= block_count_) add_blocks(node_count_ / kBlock);
    Node &n = *at(node_count_);
    n = Node{};
    n.payload = free_head_;
    free_head_ = node_count_++;
    free_count_++;
  }
  reserved_ += count;
}

void Index::unreserve(uint32_t count) { reserved_ -= count; }

size_t Index::bucket_of(const Name &name, uint32_t id) const {
  const uint64_t hash = mix(name);
  const size_t mask = buckets_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Bucket &b = buckets_[i];
    if (b.id == 0) return SIZE_MAX;
    if (b.tag == tag_of(hash) && (id ? b.id == id : at(b.id)->name == name)) return i;
  }
}

void Index::bucket_insert(uint32_t id) {
  const uint64_t hash = mix(at(id)->name);
  const size_t mask = buckets_.size() - 1;
  size_t i = hash & mask;
  while (buckets_[i].id) i = (i + 1) & mask;
  buckets_[i] = {id, tag_of(hash)};
}

void Index::bucket_erase(const Name &name, uint32_t id) {
  size_t hole = bucket_of(name, id);
  KVC_CHECK(hole != SIZE_MAX);
  const size_t mask = buckets_.size() - 1;
  for (size_t i = (hole + 1) & mask; buckets_[i].id; i = (i + 1) & mask) {  // backward shift: no tombstones
    const size_t home = mix(at(buckets_[i].id)->name) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    buckets_[hole] = buckets_[i];
    hole = i;
  }
  buckets_[hole] = {};
}

void Index::prefetch(const Name &name) const { __builtin_prefetch(&buckets_[mix(name) & (buckets_.size() - 1)]); }

Ref Index::find(const Name &name) const {
  const size_t i = bucket_of(name, 0);
  return i == SIZE_MAX ? Ref{} : ref_of(buckets_[i].id);
}

Ref Index::find_child(const Name &name, Ref parent_ref) const {
  const Ref ref = find(name);
  return ref && parent(ref) == parent_ref ? ref : Ref{};
}

Ref Index::insert(const Node &node, Ref parent, const Owner &owner) {
  KVC_CHECK(reserved_ > 0 && free_count_ > 0);
  reserved_--;
  free_count_--;
  const uint32_t id = free_head_;
  Node &n = *at(id);
  free_head_ = static_cast<uint32_t>(n.payload);
  const uint32_t generation = n.generation + 1;
  n = node;
  n.generation = generation;
  n.pins = 1;
  if (!(n.flags & node_object)) n.children = 0;
  *rest(id) = {parent, owner.scope, static_cast<uint32_t>(owner.slot), static_cast<uint32_t>(owner.slot >> 32)};
  if (parent) {
    KVC_CHECK(this->node(parent).generation == parent.generation);
    this->node(parent).children++;
  }
  live_count_++;
  if (n.flags & node_object) object_count_++;
  if (!(n.flags & node_unnamed)) {
    bucket_insert(id);
    named_count_++;
  }
  return {id, generation};
}

bool Index::held(Ref ref) const {
  const Node &n = *at(ref.id);
  return ref && n.generation == ref.generation && !(__atomic_load_n(&n.flags, __ATOMIC_RELAXED) & node_dropped);
}

void Index::push_if_evictable(uint32_t id) {
  Node &n = *at(id);
  if (n.pins || !n.leaf() || (n.flags & node_queued)) return;
  if (heap_.size() == heap_.capacity()) compact_heap();
  set_flags(n, n.flags | node_queued);
  heap_.push_back({n.tick, id, n.generation});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Index::compact_heap() {
  std::erase_if(heap_, [this](const HeapEntry &e) { return at(e.id)->generation != e.generation; });
  std::make_heap(heap_.begin(), heap_.end(), later);
}

void Index::remove(uint32_t id, bool release) {
  for (;;) {
    Node &n = *at(id);
    if (!(n.flags & (node_unnamed | node_dropped))) {
      bucket_erase(n.name, id);
      named_count_--;
    }
    live_count_--;
    if (n.flags & node_object) object_count_--;
    const Ref parent = rest(id)->parent;
    sink_->released(n, owner({id, n.generation}));
    n.generation++;
    n.payload = free_head_;
    free_head_ = id;
    free_count_++;
    if (!parent) return;
    Node &up = *at(parent.id);
    up.children--;
    up.tick = std::max(up.tick, n.tick);
    if (up.pins || up.children) return;
    if (!(up.flags & node_dropped) && !(release && (up.flags & node_unnamed))) {
      push_if_evictable(parent.id);
      return;
    }
    id = parent.id;  // nobody can reach it: its last child was its last holder
  }
}

void Index::unpin(Ref ref, uint64_t tick, bool release) {
  Node &n = node(ref);
  KVC_CHECK(n.generation == ref.generation && n.pins > 0);
  n.pins--;
  n.tick = std::max(n.tick, tick);
  if (n.pins || !n.leaf()) return;
  if ((n.flags & node_dropped) || (release && (n.flags & node_unnamed))) remove(ref.id, release);
  else push_if_evictable(ref.id);
}

void Index::drop(Ref ref) {
  Node &n = node(ref);
  if (n.generation != ref.generation || (n.flags & node_dropped)) return;
  if (!(n.flags & node_unnamed)) {
    bucket_erase(n.name, ref.id);
    named_count_--;
  }
  set_flags(n, n.flags | node_dropped);
  if (n.pins == 0 && n.leaf()) remove(ref.id, false);
}

void Index::unname(Ref ref) {
  Node &n = node(ref);
  bucket_erase(n.name, ref.id);
  named_count_--;
  set_flags(n, n.flags | node_unnamed);
  if (n.pins == 0 && n.leaf()) remove(ref.id, false);
}

bool Index::evict() {
  while (!heap_.empty()) {
    const HeapEntry top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    Node &n = *at(top.id);
    if (n.generation != top.generation) continue;
    set_flags(n, n.flags & ~node_queued);
#ifndef KVC_MUTATE_LEASE
    if (n.pins || !n.leaf()) continue;  // comes back when it is let go
#else
    if (!n.leaf()) continue;
#endif
    if (n.tick != top.tick) {  // used since it was queued
      push_if_evictable(top.id);
      continue;
    }
    remove(top.id, false);
    return true;
  }
  return false;
}

}  // namespace kvc::seq
