#pragma once
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <vector>

#include "kvc/observe.h"
#include "seq/identity.h"

namespace kvc::store {

struct Queue;

/// One event as it stands in a ring.
struct Event {
  uint32_t kind = 0, tier_from = 0, tier_to = 0;
  uint64_t number = 0, token_begin = 0, token_count = 0;
  seq::Name scope{}, chunk{}, parent{};
  uint64_t ids_end = 0;  // in the ring of ids; the ring's own
};

/// What a queue was told and has not drained, and what it wants to be told.  Bounded: when there is no room for an event, that one and all after it are
/// dropped until the reader has taken what stands in the ring and was told, at the place of the loss.  Threads: any.
class EventRing {
 public:
  static constexpr uint32_t event_max = 4096;
  static constexpr uint64_t id_max = event_max * 64;
  static constexpr uint32_t filter_max = 256;

  /// Throws std::bad_alloc.
  EventRing(std::pmr::memory_resource *resource, Queue *queue);
  Queue *queue() const { return queue_; }

  /// Whose events, of which kinds; `scope` null: of all that have no filter of their own.  A mask of 0 ends it, of null ends all.  False: too many
  /// filters.  Throws std::bad_alloc.
  bool watch(const seq::Name *scope, uint32_t mask);
  bool wants(const seq::Name &scope, uint32_t kind) const;
  bool idle() const { return filters_.empty() && !all_mask_; }

  /// Calls `changed(bool waits)` under the ring's lock when that changes.
  template <typename Changed>
  void push(const Event &event, std::span<const int32_t> ids, Changed &&changed) {
    std::lock_guard lock(mutex_);
    const bool waited = waits();
    add(event, ids);
    if (!waited) changed(true);
  }
  /// Into an array of the size of its first element; the ids of what was drained before are no longer lent.  *dropped: events that a LOST stands for.
  template <typename Changed>
  size_t drain(kvc_event *events, size_t capacity, uint64_t *dropped, Changed &&changed) {
    std::lock_guard lock(mutex_);
    const bool waited = waits();
    const size_t count = take(events, capacity, dropped);
    if (waited && !waits()) changed(false);
    return count;
  }

 private:
  struct Filter {
    seq::Name scope;
    uint32_t mask;
  };
  bool waits() const { return begin_ != end_ || lost_; }
  void add(const Event &event, std::span<const int32_t> ids);
  size_t take(kvc_event *events, size_t capacity, uint64_t *dropped);

  Queue *const queue_;
  uint32_t all_mask_ = 0;
  std::pmr::vector<Filter> filters_;  // these two under the store's lock

  std::mutex mutex_;
  std::pmr::vector<Event> events_;
  std::pmr::vector<int32_t> ids_;
  uint64_t lent_ = 0, begin_ = 0, end_ = 0;  // of events since the ring was made: lent to the reader, waiting, next
  uint64_t ids_begin_ = 0, ids_end_ = 0;
  uint64_t number_ = 0, lost_ = 0;  // lost: since the reader was last told
};

}  // namespace kvc::store
