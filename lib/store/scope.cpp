#include "store/scope.h"

#include <algorithm>
#include <cstring>

#include "store/memory.h"
#include "store/scope_use.h"
#include "store/store.h"

namespace kvc::store {

using base::fail;

namespace {

kvc_status check_scope_options(const kvc_scope_options &o, Error &error) {
  if (o.flags) return fail(error, KVC_ERR_TOO_NEW, "scope flags 0x%x: unknown bits", o.flags);
  if (!o.model || !*o.model) return fail(error, KVC_ERR_ARGUMENT, "model is %s: every scope names its model", o.model ? "empty" : "NULL");
  if (!o.salt && o.salt_size) return fail(error, KVC_ERR_ARGUMENT, "salt is NULL but salt_size is %llu", static_cast<unsigned long long>(o.salt_size));
  if (o.precision) return fail(error, KVC_ERR_UNSUPPORTED, "precision: pages are exact in this build");
  return KVC_OK;
}

std::string_view view(const char *text) { return text ? std::string_view(text) : std::string_view(); }

}  // namespace

kvc_status shape_info(kvc_shape_info &out, const kvc_shape &shape, Error &error) {
  seq::Shape checked;
  KVC_TRY(seq::shape_check(checked, shape, error));
  out.layer_count = checked.layer_count;
  out.token_bytes = checked.token_bytes;
  out.chunk_bytes = checked.chunk_bytes;
  out.state_bytes = checked.state_bytes;
  std::memcpy(out.fingerprint, checked.fingerprint.data(), sizeof out.fingerprint);
  return KVC_OK;
}

kvc_status ScopeUse::enter(const base::Token &token, Error &error) {
  void *object;
  KVC_TRY(base::store_of(&object, token, base::HandleKind::scope, error));
  auto *store = static_cast<Store *>(object);
  if (store->scopes().enter_shared(&object, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_scope was released before");
  token_ = token;
  store_ = store;
  scope_ = static_cast<Scope *>(object);
  return KVC_OK;
}

void ScopeUse::leave() {
  if (!scope_) return;
  if (token_.generation && store_->scopes().leave_shared(token_)) store_->scope_unref(scope_);
  scope_ = nullptr;
}

/// The scope of this name, made if it is new.  Under the lock.
kvc_status Store::find_or_make_scope(Scope **out, const seq::Name &name, seq::Shape &&shape, Error &error) {
  if (const auto found = scopes_by_name_.find(name); found != scopes_by_name_.end()) {
    *out = found->second;
    return KVC_OK;
  }
  Scope *scope = make<Scope>(&resource_, &resource_);
  try {
    scope->name = name;
    scope->shape = std::move(shape);
    scope->init_layouts(0);
    scope->has_all_main = true;
    scope->bytes_since_ns = clock_.now_ns();
    if (scope->slot_bytes() > slab_.capacity_bytes()) {
      const auto need = static_cast<unsigned long long>(scope->slot_bytes());
      destroy(&resource_, scope);
      return base::fail_never(error, KVC_ERR_FULL, "a chunk of this shape takes %llu bytes: memory_bytes is %llu; open the store with more memory_bytes", need, static_cast<unsigned long long>(slab_.capacity_bytes()));
    }
    scope->id = scope_id_free_;
    while (scope->id < scopes_by_id_.size() && scopes_by_id_[scope->id]) scope->id++;
    if (scope->id == scopes_by_id_.size()) scopes_by_id_.push_back(nullptr);
    scopes_by_name_.emplace(name, scope);
  } catch (...) {
    destroy(&resource_, scope);
    throw;
  }
  scopes_by_id_[scope->id] = scope;
  scope_id_free_ = scope->id + 1;
  *out = scope;
  return KVC_OK;
}

kvc_status Store::scope_create(uint64_t *token, const kvc_scope_options &o, Error &error) {
  KVC_TRY(check_scope_options(o, error));
  seq::Shape shape;
  if (o.shape) KVC_TRY(seq::shape_check(shape, *o.shape, error));
  const seq::ScopeIdentity identity{view(o.tenant), view(o.model), view(o.revision), view(o.adapter), {static_cast<const char *>(o.salt), o.salt_size}};
  const seq::Name name = seq::scope_name(identity, shape.fingerprint);

  std::unique_lock lock(mutex_);
  Scope *scope;
  KVC_TRY(find_or_make_scope(&scope, name, std::move(shape), error));
  scope->users++;
  const auto undo = [&] {
    scope->users--;
    end_limits(*scope);
    forget_scope(scope);
  };
  try {
    begin_limits(*scope, o);
    *token = scope_handles_.add(scope);
  } catch (...) {
    undo();
    throw;
  }
  if (!*token) {
    undo();
    return fail(error, KVC_ERR_FULL, "%u scope handles are open: the limit", base::HandleTable::kIndexMax);
  }
  set_limits(*scope, o);
  queues_.room_freed();  // of a larger quota
  lock.unlock();
  if (o.bytes_max) shrink(*scope);
  return KVC_OK;
}

void Store::scope_unref(Scope *scope) {
  std::lock_guard lock(mutex_);
  scope->users--;
  forget_scope(scope);
}

/// An empty scope that nobody uses costs nothing to make again.
void Store::forget_scope(Scope *scope) {
  if (!scope->empty()) return;
  set_limits(*scope, {});
  scopes_by_name_.erase(scope->name);
  scopes_by_id_[scope->id] = nullptr;
  scope_id_free_ = std::min(scope_id_free_, scope->id);
  destroy(&resource_, scope);
}

kvc_status Store::scope_release(const base::Token &token, Error &error) {
  void *object;
  if (scope_handles_.retire(&object, token) != KVC_OK) return fail(error, KVC_ERR_STALE, "kvc_scope was released before");
  if (object) scope_unref(static_cast<Scope *>(object));
  return KVC_OK;
}

void Store::scope_clear(kvc_result &result, Scope &scope) {
  const LapsesToLog lapses{*this};
  std::lock_guard lock(mutex_);
  reap(clock_.now_ns());
  reads_.settle(*index_);
  const uint64_t count = scope.chunk_count + scope.object_count, bytes = scope.bytes_host;
  end_waiting(&scope);
  scope.key_order.clear();
  clearing_ = true;
  index_->clear(scope.id);
  clearing_ = false;
  if (index_->names_watched()) {
    Event event;
    event.kind = KVC_EVENT_CLEARED;
    event.tier_from = KVC_TIER_HOST;
    event.scope = scope.name;
    tell(event, {});
  }
  result.done = count - scope.chunk_count - scope.object_count;
  result.bytes = result.bytes_host = bytes - scope.bytes_host;
  queues_.room_freed();
}

void Store::scope_info(kvc_scope_info &info, Scope &scope) {
  std::lock_guard lock(mutex_);
  reads_.settle(*index_);
  scope.settle(clock_.now_ns());
  info.bytes_host = scope.bytes_host;
  info.bytes_max = scope.bytes_max.load(std::memory_order_relaxed);
  info.chunk_count = scope.chunk_count;
  info.object_count = scope.object_count;
  info.seq_count = scope.seq_count;
  info.hit_tokens = scope.hit_tokens;
  info.miss_tokens = scope.miss_tokens;
  info.tokens_written = scope.tokens_written;
  info.tokens_read = scope.tokens_read;
  info.byte_seconds_host = scope.byte_seconds_host;
  std::memcpy(info.fingerprint, scope.name.data(), sizeof info.fingerprint);
}

}  // namespace kvc::store
