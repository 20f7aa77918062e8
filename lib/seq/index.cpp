#include "seq/index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/fault.h"

namespace kvc::seq {
namespace {

/// Readers without the lock look at flags (held): every change is one store.
void set_flags(Node &node, uint32_t flags) { __atomic_store_n(&node.flags, flags, __ATOMIC_RELEASE); }

uint32_t queued_in(Index::Queue queue) { return queue == Index::by_quota ? node_queued_quota : node_queued_ttl; }

/// No digest looks like this: what a piece is found by while it is held, in this index alone.
Name piece_name(Ref chunk, uint32_t kind) {
  Name name{};
  const uint32_t words[] = {chunk.id, chunk.generation, kind};
  std::memcpy(name.data(), words, sizeof words);
  return name;
}

Ref chunk_of(const Name &piece) {
  Ref chunk;
  std::memcpy(&chunk.id, piece.data(), sizeof chunk.id);
  std::memcpy(&chunk.generation, piece.data() + sizeof chunk.id, sizeof chunk.generation);
  return chunk;
}

}  // namespace

Index::Index(std::pmr::memory_resource *resource, NodeSink *sink, const NameHash &hash)
    : hash_(hash), resource_(resource), sink_(sink), chunks_(resource), objects_(resource), heap_(resource), limited_(resource), first_(resource) {
  blocks_ = static_cast<Block *>(resource_->allocate(kBlocksMax * sizeof(Block), alignof(Block)));  // touched as it fills
}

Index::~Index() {
  for (uint32_t scope = 0; scope < limited_.size(); scope++)
    for (const Queue queue : {by_quota, by_ttl}) unlimit(scope, queue);
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

/// Into the table of its kind.
void Index::enter_name(uint32_t id) {
  const Node &n = *at(id);
  if (n.flags & node_object) objects_.insert(hash(n.name), {id, 0, n.payload});
  else chunks_.insert(hash(n.name), {id, 0});
  (n.flags & node_object ? named_objects_ : named_chunks_)++;
}

void Index::leave_name(uint32_t id) {
  const auto hash_of = [this](uint32_t other) { return hash(at(other)->name); };
  const bool object = at(id)->flags & node_object;
  if (names_watched_ && !(at(id)->flags & (node_object | node_piece | node_partial))) [[unlikely]] sink_->name_left(*at(id), owner(ref_of(id)));
  if (object) objects_.erase(id, hash_of);
  else chunks_.erase(id, hash_of);
  (object ? named_objects_ : named_chunks_)--;
}

void Index::reserve(uint32_t count, uint32_t scope) {
  if (KVC_FAULT("seq.index.reserve")) throw std::bad_alloc();
  const uint64_t wanted = live_count_ + reserved_ + count;
  const auto hash_of = [this](uint32_t id) { return hash(at(id)->name); };
  chunks_.reserve(named_chunks_ + reserved_ + count, hash_of);
  objects_.reserve(named_objects_ + reserved_ + count, hash_of);
  heap_.reserve(wanted + 1);
  if (Limited *own = limited(scope))
    for (const Queue queue : {by_quota, by_ttl})
      if (own->on[queue]) own->heaps[queue].reserve(own->node_count + reserved_ + count + 1);
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

void Index::prefetch(const Name &name) const { chunks_.prefetch(hash(name)); }

Ref Index::find(const Name &name) const {
  const ChunkBucket *bucket = chunks_.find(hash(name), [&](const ChunkBucket &b) { return at(b.id)->name == name; });
  return bucket ? ref_of(bucket->id) : Ref{};
}

Ref Index::find_object(const Name &name) const {
  const ObjectBucket *bucket = objects_.find(hash(name), [&](const ObjectBucket &b) { return at(b.id)->name == name; });
  return bucket ? ref_of(bucket->id) : Ref{};
}

Index::Likely Index::likely_object(uint64_t hash) const {
  const ObjectBucket *bucket = objects_.find(hash, [](const ObjectBucket &) { return true; });
  return bucket ? Likely{bucket->id, bucket->payload} : Likely{};
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
  if (!limited_.empty() && limited(owner.scope)) {
    n.flags |= node_limited;
    limited_[owner.scope]->node_count++;
  }
  if (!(n.flags & node_unnamed)) enter_name(id);
  return {id, generation};
}

Ref Index::insert_piece(Node node, Ref chunk, const Owner &owner) {
  Node &whole = this->node(chunk);
  KVC_CHECK(whole.generation == chunk.generation);
  node.name = piece_name(chunk, node.flags & node_piece);
  set_flags(whole, (node.flags & node_state ? whole.flags & ~static_cast<uint32_t>(node_bad_state) : whole.flags) | node_pieced);
  piece_count_++;
  return insert(node, {}, owner);
}

Ref Index::find_piece(Ref chunk, NodeFlags kind) const { return node(chunk).flags & node_pieced ? find(piece_name(chunk, kind)) : Ref{}; }

void Index::remove_pieces(Ref chunk) {
  for (const NodeFlags kind : {node_window, node_state})
    if (const Ref piece = find(piece_name(chunk, kind))) unname(piece);  // who holds it reads on
}

bool Index::held(Ref ref) const {
  if (!ref) return false;  // where no node is there may be no room for one either
  const Node &n = *at(ref.id);
  return n.generation == ref.generation && !(__atomic_load_n(&n.flags, __ATOMIC_RELAXED) & node_dropped);
}

void Index::push_if_evictable(uint32_t id) {
  Node &n = *at(id);
  if (n.pins || !n.leaf()) return;
  if (!(n.flags & node_queued)) push(heap_, id, node_queued);
  if (n.flags & node_limited) push_limited(id);
}

/// Those of a chunk that nobody holds or goes on from, and of all above it.
void Index::use_pieces(uint32_t id) {
  const uint64_t tick = at(id)->tick + 1;
  for (Ref chunk = ref_of(id); chunk && (node(chunk).flags & node_pieced); chunk = parent(chunk))
    for (const NodeFlags kind : {node_window, node_state})
      if (const Ref piece = find(piece_name(chunk, kind))) touch(piece, tick);
}

void Index::push(LruHeap &heap, uint32_t id, uint32_t queued) {
  Node &n = *at(id);
  if (heap.full()) heap.compact([this](const LruHeap::Entry &e) { return at(e.id)->generation != e.generation; });
  set_flags(n, n.flags | queued);
  heap.push({n.tick, id, n.generation});
}

void Index::push_limited(uint32_t id) {
  Limited *own = limited(rest(id)->scope);
  for (const Queue queue : {by_quota, by_ttl}) {
    if (!own || !own->on[queue] || at(id)->flags & queued_in(queue) || (queue == by_ttl && at(id)->flags & node_own_ttl)) continue;
    LruHeap &heap = own->heaps[queue];
    if (heap.full()) heap.compact([this](const LruHeap::Entry &e) { return at(e.id)->generation != e.generation; });
    if (heap.full()) own->missed[queue] = true;  // reserved for before the scope was limited
    else push(heap, id, queued_in(queue));
  }
}

void Index::remove(uint32_t id, bool release) {
  for (;;) {
    Node &n = *at(id);
    if (!(n.flags & (node_unnamed | node_dropped))) leave_name(id);
    live_count_--;
    if (n.flags & node_object) object_count_--;
    if (n.flags & node_limited) {
      if (Limited *own = limited(rest(id)->scope)) own->node_count--;
    }
    if (n.flags & node_piece) piece_count_--;
    if (n.flags & node_pieced) remove_pieces({id, n.generation});
    const Ref parent = rest(id)->parent;
    sink_->released({id, n.generation}, n, owner({id, n.generation}));
    n.generation++;
    n.payload = free_head_;
    free_head_ = id;
    free_count_++;
    if (!parent) return;
    Node &up = *at(parent.id);
    up.children--;
    const bool used_since = up.tick > n.tick;
    up.tick = std::max(up.tick, n.tick);
    if (up.children) return;
    note_release(up, release);
    if (up.pins) return;
    if (!goes_unheld(up, release)) {
      if (used_since && (up.flags & node_pieced)) use_pieces(parent.id);
      push_if_evictable(parent.id);
      return;
    }
    id = parent.id;  // nobody can reach it: its last child was its last holder
  }
}

/// One that held it, or its last child, went: for good, or to come back.
void Index::note_release(Node &n, bool release) {
  if (n.flags & node_unnamed) [[unlikely]] set_flags(n, release ? n.flags | node_released : n.flags & ~static_cast<uint32_t>(node_released));
}

void Index::unpin(Ref ref, uint64_t tick, bool release) {
  Node &n = node(ref);
  KVC_CHECK(n.generation == ref.generation && n.pins > 0);
  n.pins--;
  n.tick = std::max(n.tick, tick);
  note_release(n, release);
  if (n.pins || !n.leaf()) return;
  let_go_count_++;
  if (goes_unheld(n, release)) return remove(ref.id, release);
  if (n.flags & node_pieced) use_pieces(ref.id);
  push_if_evictable(ref.id);
}

void Index::unpin_looked_at(Ref ref) { unpin(ref, 0, (node(ref).flags & node_released) != 0); }

void Index::complete(Ref ref) {
  Node &n = node(ref);
  set_flags(n, n.flags & ~static_cast<uint32_t>(node_partial | node_waits));
}

void Index::drop(Ref ref) {
  Node &n = node(ref);
  if (n.generation != ref.generation || (n.flags & node_dropped)) return;
  if (!(n.flags & node_unnamed)) leave_name(ref.id);
  set_flags(n, n.flags | node_dropped);
  if (n.flags & node_state) {
    const Ref chunk = chunk_of(n.name);
    if (Node &whole = node(chunk); whole.generation == chunk.generation) set_flags(whole, whole.flags | node_bad_state);
  }
  if (n.pins == 0 && n.leaf()) remove(ref.id, false);
}

void Index::unname(Ref ref) {
  Node &n = node(ref);
  leave_name(ref.id);
  set_flags(n, n.flags | node_unnamed);
  if (n.pins == 0 && n.leaf()) remove(ref.id, false);
}

void Index::clear(uint32_t scope) {
  for (uint32_t id = 1; id < node_count_; id++) {
    if (!live(id) || rest(id)->scope != scope) continue;
    Node &n = *at(id);
    if (n.flags & node_object) {
      drop(ref_of(id));
      continue;
    }
    if (!(n.flags & (node_unnamed | node_dropped))) leave_name(id);
    set_flags(n, n.flags | node_unnamed);
    if (n.pins == 0 && n.leaf()) remove(id, true);
  }
}

bool Index::goes_first(const First &first) const {
  const Node &n = *at(first.ref.id);
  return n.generation == first.ref.generation && !n.pins && n.leaf() && n.tick <= first.tick;
}

void Index::reserve_first() {
  if (first_.size() + first_reserved_ >= first_.capacity()) std::erase_if(first_, [this](const First &first) { return !goes_first(first); });
  if (first_.size() + first_reserved_ >= first_.capacity()) first_.reserve(2 * first_.capacity() + 8);
  first_reserved_++;
}

void Index::go_first(Ref ref, uint64_t tick) {
  KVC_CHECK(first_reserved_ > 0);
  first_reserved_--;
  first_.push_back({ref, tick});
}

bool Index::evict_first(const uint32_t *scope) {
  for (size_t i = first_.size(); i-- > 0;) {
    First &first = first_[i];
    if (scope && rest(first.ref.id)->scope != *scope) continue;
    const Ref up = parent(first.ref);
    const bool goes = goes_first(first);
    if (goes) remove(first.ref.id, false);
    if (goes && up) first.ref = up;
    else first_.erase(first_.begin() + static_cast<int64_t>(i));
    if (goes) return true;
  }
  return false;
}

bool Index::evict() { return evict_first(nullptr) || evict_from(heap_, node_queued, UINT64_MAX); }

bool Index::evict_from(LruHeap &heap, uint32_t queued, uint64_t tick_max) {
  while (!heap.empty()) {
    const LruHeap::Entry top = heap.top();
    if (top.tick > tick_max) return false;
    heap.pop();
    Node &n = *at(top.id);
    if (n.generation != top.generation) continue;
    set_flags(n, n.flags & ~queued);
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

void Index::limit(uint32_t scope, Queue queue) {
  Limited *own = limited(scope);
  if (own && own->on[queue]) return;
  if (KVC_FAULT("seq.index.limit")) throw std::bad_alloc();
  uint64_t count = 0;
  for (uint32_t id = 1; id < node_count_; id++) count += live(id) && rest(id)->scope == scope;
  if (!own) {
    if (scope >= limited_.size()) limited_.resize(scope + 1);
    own = new (resource_->allocate(sizeof(Limited), alignof(Limited))) Limited(resource_);
    own->node_count = count;
    limited_[scope] = own;
  }
  try {
    own->heaps[queue].reserve(count + reserved_ + 1);
  } catch (...) {
    unlimit(scope, queue);
    throw;
  }
  own->on[queue] = true;
  queue_all(scope, *own, queue);
}

void Index::queue_all(uint32_t scope, Limited &limited, Queue queue) {
  limited.missed[queue] = false;
  limited.heaps[queue].clear();
  for (uint32_t id = 1; id < node_count_; id++) {
    if (!live(id) || rest(id)->scope != scope) continue;
    Node &n = *at(id);
    set_flags(n, (n.flags | node_limited) & ~queued_in(queue));
    push_if_evictable(id);
  }
}

void Index::unlimit(uint32_t scope, Queue queue) {
  Limited *own = limited(scope);
  if (!own) return;
  own->on[queue] = false;
  own->heaps[queue] = LruHeap(resource_);
  if (own->on[by_quota] || own->on[by_ttl]) return;
  limited_[scope] = nullptr;
  own->~Limited();
  resource_->deallocate(own, sizeof(Limited), alignof(Limited));
}

bool Index::evict_limited(uint32_t scope, Queue queue, uint64_t tick_max) {
  Limited &own = *limited_[scope];
  if (evict_from(own.heaps[queue], queued_in(queue), tick_max)) return true;
  if (!own.missed[queue]) return false;
  try {
    own.heaps[queue].reserve(own.node_count + 1);
  } catch (const std::bad_alloc &) {  // as many as there is room for
  }
  queue_all(scope, own, queue);
  return evict_from(own.heaps[queue], queued_in(queue), tick_max);
}

bool Index::evict_of(uint32_t scope) { return evict_first(&scope) || evict_limited(scope, by_quota, UINT64_MAX); }

bool Index::evict_older(uint32_t scope, uint64_t tick) { return evict_limited(scope, by_ttl, tick); }

bool Index::none_older(uint32_t scope, uint64_t tick) const {
  const Limited &own = *limited_[scope];
  return !own.missed[by_ttl] && (own.heaps[by_ttl].empty() || own.heaps[by_ttl].top().tick > tick);
}

}  // namespace kvc::seq
