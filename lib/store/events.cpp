#include "store/events.h"

#include <algorithm>
#include <cstring>

#include "store/memory.h"
#include "store/store.h"

/// What becomes of chunks, told to whoever watches.  Names come and go under the store's lock, so events are in the order in which things happened.
namespace kvc::store {

using base::fail;

EventRing::EventRing(std::pmr::memory_resource *resource, Queue *queue) : queue_(queue), filters_(resource), events_(event_max, resource), ids_(id_max, resource) {}

bool EventRing::watch(const seq::Name *scope, uint32_t mask) {
  if (!scope) {
    all_mask_ = mask;
    if (!mask) filters_.clear();
    return true;
  }
  const auto at = std::find_if(filters_.begin(), filters_.end(), [&](const Filter &f) { return f.scope == *scope; });
  const bool keep = mask || all_mask_;  // one of 0 is kept where others are watched
  if (at != filters_.end()) {
    if (keep) at->mask = mask;
    else filters_.erase(at);
    return true;
  }
  if (!keep) return true;
  if (filters_.size() == filter_max) return false;
  filters_.push_back({*scope, mask});
  return true;
}

bool EventRing::wants(const seq::Name &scope, uint32_t kind) const {
  for (const Filter &filter : filters_)
    if (filter.scope == scope) return filter.mask & kind;
  return all_mask_ & kind;
}

void EventRing::add(const Event &event, std::span<const int32_t> ids) {
  number_++;
  uint64_t at = ids_end_;
  if (at % id_max + ids.size() > id_max) at += id_max - at % id_max;  // in one piece
  if (lost_ || end_ - lent_ == event_max || at + ids.size() - ids_begin_ > id_max) {
    lost_++;
    return;
  }
  Event &to = events_[end_++ % event_max];
  to = event;
  to.number = number_;
  to.token_count = ids.empty() ? event.token_count : ids.size();
  if (!ids.empty()) std::copy(ids.begin(), ids.end(), ids_.begin() + static_cast<int64_t>(at % id_max));
  to.ids_end = ids_end_ = at + ids.size();
}

size_t EventRing::take(kvc_event *events, size_t capacity, uint64_t *dropped) {
  if (begin_ != lent_) ids_begin_ = events_[(begin_ - 1) % event_max].ids_end;
  lent_ = begin_;
  const uint32_t size = events->size;
  size_t n = 0;
  const auto give = [&](const Event &from, const int32_t *ids) {
    kvc_event out{};
    out.size = size;
    out.kind = from.kind, out.tier_from = from.tier_from, out.tier_to = from.tier_to;
    out.sequence_number = from.number, out.token_begin = from.token_begin, out.token_count = from.token_count;
    std::memcpy(out.scope, from.scope.data(), sizeof out.scope);
    std::memcpy(out.chunk, from.chunk.data(), sizeof out.chunk);
    std::memcpy(out.parent, from.parent.data(), sizeof out.parent);
    out.tokens = ids;
    std::memcpy(reinterpret_cast<char *>(events) + n++ * size, &out, std::min<size_t>(size, sizeof out));
  };
  for (; n < capacity && begin_ != end_; begin_++) {
    const Event &event = events_[begin_ % event_max];
    give(event, event.kind == KVC_EVENT_STORED ? ids_.data() + (event.ids_end - event.token_count) % id_max : nullptr);
  }
  if (n < capacity && lost_) {
    Event lost;
    lost.kind = KVC_EVENT_LOST;
    lost.number = number_;
    give(lost, nullptr);
    *dropped = std::exchange(lost_, 0);
  }
  return n;
}

kvc_status Store::event_watch(Queue &queue, const Scope *scope, uint32_t mask, Error &error) {
  constexpr uint32_t known = KVC_EVENT_STORED | KVC_EVENT_REMOVED | KVC_EVENT_MOVED | KVC_EVENT_CLEARED | KVC_EVENT_LOST;
  if (mask & ~known) return fail(error, KVC_ERR_TOO_NEW, "mask 0x%x: unknown bits", mask & ~known);
  std::lock_guard lock(mutex_);
  EventRing *ring = ring_of(queue);
  if (!ring) {
    if (!mask) return KVC_OK;
    rings_.reserve(rings_.size() + 1);
    ring = make<EventRing>(&resource_, &resource_, &queue);
    try {
      (void)ring->watch(scope ? &scope->name : nullptr, mask);
    } catch (...) {
      destroy(&resource_, ring);
      throw;
    }
    rings_.push_back(ring);
  } else if (!ring->watch(scope ? &scope->name : nullptr, mask)) {
    return fail(error, KVC_ERR_FULL, "the queue watches %u scopes: the limit", EventRing::filter_max);
  }
  const bool watched = !std::all_of(rings_.begin(), rings_.end(), [](const EventRing *r) { return r->idle(); });
  index_->watch_names(watched);
  return KVC_OK;
}

/// Under the lock.
EventRing *Store::ring_of(const Queue &queue) const {
  const auto at = std::find_if(rings_.begin(), rings_.end(), [&](const EventRing *ring) { return ring->queue() == &queue; });
  return at == rings_.end() ? nullptr : *at;
}

size_t Store::event_drain(kvc_event *events, size_t capacity, Queue &queue) {
  EventRing *ring;
  {
    std::lock_guard lock(mutex_);
    ring = ring_of(queue);  // stays while the queue is in use
  }
  uint64_t dropped = 0;
  const size_t count = ring ? ring->drain(events, capacity, &dropped, [&](bool wait) { queues_.set_events(queue, wait); }) : 0;
  metrics_.dropped_events.fetch_add(dropped, std::memory_order_relaxed);
  if (dropped) log_.line(Log::warning, Log::Cause::events, "%llu events were dropped: their reader was too slow", static_cast<unsigned long long>(dropped));
  return count;
}

/// The queue is released.
void Store::end_events(const Queue &queue) {
  std::lock_guard lock(mutex_);
  EventRing *ring = ring_of(queue);
  if (!ring) return;
  std::erase(rings_, ring);
  destroy(&resource_, ring);
  if (rings_.empty()) index_->watch_names(false);
}

/// Under the lock.
void Store::tell(const Event &event, std::span<const int32_t> ids) {
  for (EventRing *ring : rings_)
    if (ring->wants(event.scope, event.kind)) ring->push(event, ids, [&](bool wait) { queues_.set_events(*ring->queue(), wait); });
}

/// A chunk got its place in the index.
void Store::tell_stored(const Sequence &seq, Ref ref, uint64_t chunk) {
  const seq::Node &node = index_->node(ref);
  if (node.flags & seq::node_unnamed) return;
  const uint64_t tokens = seq.chunk_tokens();
  Event event;
  event.kind = KVC_EVENT_STORED;
  event.tier_to = KVC_TIER_HOST;
  event.token_begin = chunk * tokens;
  event.scope = seq.scope->name;
  event.chunk = node.name;
  event.parent = chunk ? index_->node(index_->parent(ref)).name : seq.scope->name;
  tell(event, {seq.ids.data() + (chunk - seq.sealed) * tokens, tokens});
}

void Store::name_left(const seq::Node &node, const seq::Owner &owner) noexcept {
  if (clearing_) return;  // one event tells of all
  Event event;
  event.kind = KVC_EVENT_REMOVED;
  event.tier_from = KVC_TIER_HOST;
  event.scope = scopes_by_id_[owner.scope]->name;
  event.chunk = node.name;
  tell(event, {});
}

}  // namespace kvc::store
