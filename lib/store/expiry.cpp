#include "store/expiry.h"

#include <algorithm>

#include "store/object.h"
#include "store/store.h"

/// Times to live.  What was not used for so long is dropped by whoever looks first in its scope, so that nobody finds it; by whoever needs room; and by
/// background work.  What is held stays, however old it is.
namespace kvc::store {

namespace {
constexpr auto later = [](const Expiry::Timed &a, const Expiry::Timed &b) { return a.due_ns > b.due_ns; };
constexpr int kAtOnce = 64;
constexpr uint64_t kLookNs = 1000000;

uint64_t due(uint64_t from_ns, uint64_t ttl_ns) { return from_ns > UINT64_MAX - ttl_ns ? UINT64_MAX : from_ns + ttl_ns; }
}  // namespace

void Expiry::reserve(const seq::Index &index) {
  if (timed.size() < timed.capacity()) return;
  if (std::erase_if(timed, [&](const Timed &entry) { return !index.held(entry.ref); })) std::make_heap(timed.begin(), timed.end(), later);
  if (timed.size() * 2 >= timed.capacity()) timed.reserve(std::max<size_t>(64, timed.size() * 2));
}

void Expiry::add(const Timed &entry) {
  timed.push_back(entry);
  std::push_heap(timed.begin(), timed.end(), later);
}

Expiry::Timed Expiry::take() {
  std::pop_heap(timed.begin(), timed.end(), later);
  const Timed entry = timed.back();
  timed.pop_back();
  return entry;
}

/// Objects with times of their own that are due: gone, or due again.  At most so many; returns how many are left of them.
int Store::expire_objects(uint64_t now_ns, int left) {
  while (left > 0 && !expiry_.timed.empty() && expiry_.timed.front().due_ns <= now_ns) {
    left--;
    const Ref ref = expiry_.take().ref;
    if (!index_->held(ref)) continue;
    const seq::Node &node = index_->node(ref);
    const uint64_t ttl_ns = base::ns_of_ms(reinterpret_cast<const ObjectHeader *>(slot_data(node))->ttl_ms);
    const uint64_t due_ns = node.pins ? due(now_ns, ttl_ns / 16 + kLookNs) : due(std::min(now_ns, expiry_.ages.drawn_by(node.tick)), ttl_ns);
    if (due_ns > now_ns) {
      expiry_.add({due_ns, ref});
      continue;
    }
    drop_object(ref);
    metrics_.expired.fetch_add(1, std::memory_order_relaxed);
  }
  return left;
}

int Store::expire_scope(Scope &scope, uint64_t now_ns, int left) {
  if (now_ns < scope.ttl_ns) return left;
  const uint64_t tick = expiry_.ages.tick_by(now_ns - scope.ttl_ns);
  if (index_->none_older(scope.id, tick)) return left;
  reads_.settle(*index_);
  scope.users++;  // stays when its last chunk goes
  while (left > 0 && index_->evict_older(scope.id, tick)) {
    left--;
    metrics_.expired.fetch_add(1, std::memory_order_relaxed);
  }
  scope.users--;
  return left;
}

/// Of all scopes.  True: there may be more.  Under the lock.
bool Store::expire_some(uint64_t now_ns) {
  reap(now_ns);
  reads_.settle(*index_);
  int left = expire_objects(now_ns, kAtOnce);
  for (size_t i = 0; i < expiry_.scopes.size() && left > 0; i++) {
    Scope *scope = expiry_.scopes[i];
    left = expire_scope(*scope, now_ns, left);
    forget_scope(scope);
    if (i < expiry_.scopes.size() && expiry_.scopes[i] != scope) i--;
  }
  return left == 0;
}

bool Store::expire() {
  const uint64_t before = metrics_.expired.load(std::memory_order_relaxed);
  bool more;
  {
    const LapsesToLog lapses{*this};
    std::lock_guard lock(mutex_);
    more = expiry_.any() && expire_some(clock_.now_ns());
  }
  if (metrics_.expired.load(std::memory_order_relaxed) != before) queues_.room_freed();
  return more;
}

/// Somebody needs room.  True: something went.  Under the lock.
bool Store::expire_for_room(uint64_t now_ns) {
  if (!expiry_.any() || now_ns < expiry_.next_ns) return false;
  const uint64_t before = metrics_.expired.load(std::memory_order_relaxed);
  if (!expire_some(now_ns)) expiry_.next_ns = now_ns + kLookNs;
  return metrics_.expired.load(std::memory_order_relaxed) != before;
}

Store::Aging::Aging(Store &owner, Scope &scope) {
  if (!scope.ages.load(std::memory_order_relaxed)) return;
  store_ = &owner;
  const uint64_t now_ns = store_->clock_.now_ns();
  const LapsesToLog lapses{owner};
  for (int left = 0; left == 0;) {  // others come between
    std::lock_guard lock(store_->mutex_);
    store_->reap(now_ns);
    left = kAtOnce;
    if (scope.own_ttls && !store_->expiry_.timed.empty() && store_->expiry_.timed.front().due_ns <= now_ns) {
      store_->reads_.settle(*store_->index_);
      left = store_->expire_objects(now_ns, left);
    }
    if (scope.ttl_ns) left = store_->expire_scope(scope, now_ns, left);
  }
}

Store::Aging::~Aging() {
  if (!store_) return;
  std::lock_guard lock(store_->mutex_);
  store_->note_age();
}

/// All uses up to now were by now.
void Store::note_age() {
  const uint64_t tick = tick_.load(std::memory_order_relaxed);
  expiry_.ages.note(tick, clock_.now_ns());
}

/// There is room for it.
void Store::add_own_ttl(Ref ref, uint64_t ttl_ms, Scope &scope) {
  scope.own_ttls = true;
  scope.ages.store(true, std::memory_order_relaxed);
  const uint64_t ttl_ns = base::ns_of_ms(ttl_ms);
  if (ttl_ns != KVC_FOREVER) expiry_.add({due(clock_.now_ns(), ttl_ns), ref});
}

/// What limits need of the index, before anything else is done.  Throws std::bad_alloc.
void Store::begin_limits(Scope &scope, const kvc_scope_options &o) {
  if (o.bytes_max) index_->limit(scope.id, seq::Index::by_quota);
  if (!o.ttl_ms) return;
  expiry_.scopes.reserve(expiry_.scopes.size() + 1);
  index_->limit(scope.id, seq::Index::by_ttl);
}

/// As they are; what was begun and not set ends.
void Store::end_limits(Scope &scope) {
  if (!scope.bytes_max.load(std::memory_order_relaxed)) index_->unlimit(scope.id, seq::Index::by_quota);
  if (!scope.ttl_ns) index_->unlimit(scope.id, seq::Index::by_ttl);
}

/// For all who use the scope.  They have begun.
void Store::set_limits(Scope &scope, const kvc_scope_options &o) {
  scope.bytes_max.store(o.bytes_max, std::memory_order_relaxed);
  if (scope.ttl_ns && !o.ttl_ms) std::erase(expiry_.scopes, &scope);
  if (!scope.ttl_ns && o.ttl_ms) expiry_.scopes.push_back(&scope);
  scope.ttl_ns = o.ttl_ms ? base::ns_of_ms(o.ttl_ms) : 0;
  scope.ages.store(scope.ttl_ns || scope.own_ttls, std::memory_order_relaxed);
  if (scope.ttl_ns) note_age();  // what it holds already was used now at the latest
  end_limits(scope);
}

}  // namespace kvc::store
