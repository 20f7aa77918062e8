#include "store/store.h"

/// Quotas of scopes: a scope that is at its quota makes room among its own, the least recently used first, before it asks the store for any.
namespace kvc::store {

using base::fail;

/// True: something of a scope that would have too much with `bytes` more went.  Under the lock.
bool Store::evict_over_quota(Scope &scope, uint64_t bytes) {
  if (!scope.exceeds_quota(bytes)) return false;
  if (!index_->evict_of(scope.id)) return end_waiting(&scope);
  metrics_.evicted_chunks.fetch_add(1, std::memory_order_relaxed);
  metrics_.evicted_by_quota.fetch_add(1, std::memory_order_relaxed);
  return true;
}

kvc_status Store::count_slot(QuotaHold *quota, uint64_t bytes, Scope &scope, Error &error) {
  const uint64_t rounded = memory::Slab::rounded_bytes(bytes);
  const auto needed = static_cast<unsigned long long>(rounded);
  const LapsesToLog lapses{*this};
  std::lock_guard lock(mutex_);
  const uint64_t max = scope.bytes_max.load(std::memory_order_relaxed);
  if (max && rounded > max)  // before anything is evicted for it
    return base::fail_never(error, KVC_ERR_FULL, "%llu bytes are needed: the scope's bytes_max is %llu", needed, static_cast<unsigned long long>(max));
  if (scope.exceeds_quota(rounded)) {
    reap(clock_.now_ns());
    reads_.settle(*index_);
  }
  while (evict_over_quota(scope, rounded)) continue;
  if (scope.exceeds_quota(rounded))
    return fail(error, KVC_ERR_FULL, "%llu bytes are needed: the scope holds %llu of its quota of %llu (bytes_max), all of them open or leased", needed,
                static_cast<unsigned long long>(scope.quota_used()), static_cast<unsigned long long>(max));
  *quota = QuotaHold(scope, rounded);
  return KVC_OK;
}

/// Tells whose FULL it was.
bool Store::is_over_quota(Scope &scope, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return scope.exceeds_quota(memory::Slab::rounded_bytes(bytes));
}

kvc_status Store::take_slot(memory::SlotId *slot, QuotaHold *quota, uint64_t bytes, Scope &scope, Error &error) {
  kvc_status status = KVC_OK;
  if (scope.bytes_max.load(std::memory_order_relaxed)) status = count_slot(quota, bytes, scope, error);
  if (status != KVC_OK) {
    metrics_.refused_quota.fetch_add(1, std::memory_order_relaxed);
    log_.line(Log::warning, Log::Cause::quota, "%s", error.message);
    return status;
  }
  status = take_slot(slot, bytes, error);
  if (status != KVC_OK) quota->end();
  return status;
}

/// What it has too much of goes at once, a few at a time so that others come between; what is held goes when it was let go and the scope needs room.
void Store::shrink(Scope &scope) {
  constexpr int at_once = 64;
  const LapsesToLog lapses{*this};
  for (bool more = true; more;) {
    std::lock_guard lock(mutex_);
    reap(clock_.now_ns());
    reads_.settle(*index_);
    for (int i = 0; i < at_once && more; i++) more = evict_over_quota(scope, 0);
  }
}

}  // namespace kvc::store
