#include "kvc/object.h"

#include "api/call.h"
#include "store/object.h"

using namespace kvc;
using namespace kvc::api;

namespace {

/// An item that the call did not come to has the call's status.
constexpr kvc_status unsettled = INT32_MIN;

void settle_items(std::span<kvc_object> items, kvc_status status) {
  for (kvc_object &item : items)
    if (item.status == unsettled) item.status = status, item.value_size = 0, item.tier = 0;
}

/// What all four batch calls read: scope, options, items.
template <uint32_t flags_allowed>
struct BatchCall {
  ScopeUse use;
  kvc_object_options options;
  kvc_rows layout;
  std::span<kvc_object> items;
  kvc_object *lent = nullptr;  // the caller's own items, of a queued call: their outputs go back there

  kvc_status read(Intake &in, Error &e, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *o) {
    KVC_TRY(in.enter(use, scope, e));
    KVC_TRY(read_options(options, o, "options", e));
    if (options.layout) {
      KVC_TRY(read_struct(layout, options.layout, options.layout->size, "layout", e));
      options.layout = &layout;
    }
    if (!objects || !object_count) return fail(e, KVC_ERR_ARGUMENT, "objects %s, object_count %zu: nothing to do", objects ? "given" : "NULL", object_count);
    items = {objects, object_count};
    if (!in.queued()) return KVC_OK;
    KVC_TRY(store::check_object_options(options, flags_allowed, e));
    lent = objects;
    items = {in.copies().copy(objects, object_count), object_count};
    for (kvc_object &item : items) {
      if (item.key_size <= store::object_key_max) item.key = in.bytes(item.key, item.key_size);  // else refused by its size
      item.parts = in.list(item.parts, item.part_count);
    }
    return KVC_OK;
  }
  void settle(kvc_status status) {
    settle_items(items, status);
    for (size_t i = 0; i < items.size() && lent; i++) {
      lent[i].value_size = items[i].value_size;
      lent[i].tier = items[i].tier;
      lent[i].status = items[i].status;
    }
  }
};

struct PutCall : BatchCall<KVC_OBJECT_GROUP> {
  static constexpr uint32_t operation = KVC_OP_OBJECT_PUT;
  kvc_status run(kvc_result &r, Error &e) { return use.store().object_put(r, use.scope(), items, options, e); }
};

struct GetCall : BatchCall<KVC_OBJECT_LEADING> {
  static constexpr uint32_t operation = KVC_OP_OBJECT_GET;
  kvc_status run(kvc_result &r, Error &e) { return use.store().object_get(r, use, items, options, e); }

  /// Gets of one small item each, of one scope: their misses of the cache overlap.  Large ones are for several threads.
  const void *kind() {
    constexpr uint64_t small_bytes = 16u << 10;
    return items.size() == 1 && items[0].part_count == 1 && items[0].parts && items[0].parts[0].bytes <= small_bytes ? &use.scope() : nullptr;
  }
  static GetCall &of(Task &task) { return static_cast<Queued<GetCall> *>(task.work)->call; }
  static void run_together(std::span<Task *const> tasks, std::span<bool> done) {
    std::array<kvc_object, 16> all;
    const std::span<kvc_object> items = std::span(all).first(tasks.size());
    for (size_t i = 0; i < items.size(); i++) items[i] = of(*tasks[i]).items[0];
    ScopeUse use(&of(*tasks[0]).use);
    kvc_result result;
    begin_result(result, sizeof result, operation, nullptr);
    Error of_some;
    (void)caught(of_some, [&] { return use.store().object_get(result, use, items, of(*tasks[0]).options, of_some); });
    for (size_t i = 0; i < items.size(); i++) {
      if (!(done[i] = items[i].status == KVC_OK)) continue;  // by itself it has its own error
      of(*tasks[i]).items[0] = items[i];
      kvc_result &r = tasks[i]->result;
      r.done = 1;
      r.bytes = r.bytes_host = items[i].value_size;
    }
  }
};

struct ExistsCall : BatchCall<KVC_OBJECT_LEADING | KVC_OBJECT_LEASE> {
  static constexpr uint32_t operation = KVC_OP_OBJECT_EXISTS;
  kvc_status read(Intake &in, Error &e, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *o, const kvc_result *result) {
    KVC_TRY(BatchCall::read(in, e, scope, objects, object_count, o));
    constexpr size_t lease_end = offsetof(kvc_result, lease) + sizeof(kvc_lease *);
    if (!in.queued() && (options.flags & KVC_OBJECT_LEASE) && (!result || result->size < lease_end))
      return fail(e, KVC_ERR_ARGUMENT, "result is %s: with KVC_OBJECT_LEASE the lease comes in it", result ? "of a size without a lease" : "NULL");
    return KVC_OK;
  }
  kvc_status run(kvc_result &r, Error &e) { return use.store().object_exists(r, use.scope(), items, options, e); }
};

struct DeleteCall : BatchCall<0> {
  static constexpr uint32_t operation = KVC_OP_OBJECT_DELETE;
  kvc_status run(kvc_result &r, Error &e) { return use.store().object_delete(r, use.scope(), items, e); }
};

struct ListCall {
  static constexpr uint32_t operation = KVC_OP_OBJECT_LIST;
  ScopeUse use;
  std::span<kvc_object_entry> entries;
  size_t *entry_count;
  std::string_view after;

  kvc_status read(Intake &in, Error &e, kvc_object_entry *to, size_t capacity, size_t *count, const kvc_scope *scope, const void *key, size_t key_size) {
    if (!to || !count) return fail(e, KVC_ERR_ARGUMENT, "%s is NULL", to ? "entry_count" : "entries");
    if (key_size && !key) return fail(e, KVC_ERR_ARGUMENT, "key is NULL but key_size is %zu", key_size);
    entries = {to, capacity};
    entry_count = count;
    KVC_TRY(in.enter(use, scope, e));
    after = {static_cast<const char *>(key_size <= store::object_key_max ? in.bytes(key, key_size) : key), key_size};
    return KVC_OK;
  }
  kvc_status run(kvc_result &r, Error &e) {
    KVC_TRY(use.store().object_list(entries.data(), entries.size(), entry_count, use.scope(), after, e));
    r.done = *entry_count;
    return KVC_OK;
  }
};

template <typename Call, typename... Args>
kvc_status batch(kvc_result *result, const kvc_call *call, kvc_error *error, const kvc_scope *scope, kvc_object *objects, size_t object_count, Args... args) {
  for (size_t i = 0; objects && i < object_count; i++) objects[i].status = unsettled;
  const kvc_status done = call_with_result<Call>(result, call, error, scope, objects, object_count, args...);
  if (done != KVC_OK && objects) settle_items({objects, object_count}, done);
  return done;
}

}  // namespace

kvc_status kvc_object_put(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                          const kvc_call *call, kvc_error *error) {
  return batch<PutCall>(result, call, error, scope, objects, object_count, options);
}

kvc_status kvc_object_get(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                          const kvc_call *call, kvc_error *error) {
  return batch<GetCall>(result, call, error, scope, objects, object_count, options);
}

kvc_status kvc_object_exists(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                             const kvc_call *call, kvc_error *error) {
  return batch<ExistsCall>(result, call, error, scope, objects, object_count, options, static_cast<const kvc_result *>(result));
}

kvc_status kvc_object_delete(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_call *call, kvc_error *error) {
  return batch<DeleteCall>(result, call, error, scope, objects, object_count, static_cast<const kvc_object_options *>(nullptr));
}

kvc_status kvc_object_list(kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count, const kvc_scope *scope, const void *key,
                           size_t key_size, const kvc_call *call, kvc_error *error) {
  if (entry_count) *entry_count = 0;
  return call_plain<ListCall>(call, error, entries, entry_capacity, entry_count, scope, key, key_size);
}
