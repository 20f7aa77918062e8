#include "kvc/object.h"

#include <cstddef>

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

namespace {

/// An item that the call did not come to has the call's status.
constexpr kvc_status unsettled = INT32_MIN;

/// Around all four batch calls: scope, options, items, result.
template <typename F>
kvc_status batch(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                 const kvc_call *call, uint32_t operation, kvc_error *error, F &&body) {
  for (size_t i = 0; objects && i < object_count; i++) objects[i].status = unsettled;
  const kvc_status done = guard(error, [&](Error &e) {
    return with_result(result, operation, call, e, [&](kvc_result &r) -> kvc_status {
      KVC_TRY(check_call(call, e));
      ScopeUse use;
      KVC_TRY(use.enter(token_of(scope), e));
      kvc_object_options o;
      KVC_TRY(read_options(o, options, "options", e));
      kvc_rows layout;
      if (o.layout) {
        KVC_TRY(read_struct(layout, o.layout, o.layout->size, "layout", e));
        o.layout = &layout;
      }
      if (!objects || !object_count) return fail(e, KVC_ERR_ARGUMENT, "objects %s, object_count %zu: nothing to do", objects ? "given" : "NULL", object_count);
      std::span<kvc_object> items(objects, object_count);
      return body(use, r, items, o, e);
    });
  });
  for (size_t i = 0; done != KVC_OK && objects && i < object_count; i++)
    if (objects[i].status == unsettled) objects[i].status = done, objects[i].value_size = 0, objects[i].tier = 0;
  return done;
}

}  // namespace

kvc_status kvc_object_put(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                          const kvc_call *call, kvc_error *error) {
  return batch(result, scope, objects, object_count, options, call, KVC_OP_OBJECT_PUT, error,
               [](ScopeUse &use, kvc_result &r, auto &...args) { return use.store().object_put(r, use.scope(), args...); });
}

kvc_status kvc_object_get(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                          const kvc_call *call, kvc_error *error) {
  return batch(result, scope, objects, object_count, options, call, KVC_OP_OBJECT_GET, error,
               [](ScopeUse &use, kvc_result &r, auto &...args) { return use.store().object_get(r, use, args...); });
}

kvc_status kvc_object_exists(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_object_options *options,
                             const kvc_call *call, kvc_error *error) {
  constexpr size_t lease_end = offsetof(kvc_result, lease) + sizeof(kvc_lease *);
  const bool no_place = (!result || result->size < lease_end) && options && options->size >= 8 && (options->flags & KVC_OBJECT_LEASE);
  return batch(result, scope, objects, object_count, options, call, KVC_OP_OBJECT_EXISTS, error, [&](ScopeUse &use, kvc_result &r, auto &items, auto &o, Error &e) -> kvc_status {
    if (no_place) return fail(e, KVC_ERR_ARGUMENT, "result is %s: with KVC_OBJECT_LEASE the lease comes in it", result ? "of a size without a lease" : "NULL");
    return use.store().object_exists(r, use.scope(), items, o, e);
  });
}

kvc_status kvc_object_delete(kvc_result *result, const kvc_scope *scope, kvc_object *objects, size_t object_count, const kvc_call *call, kvc_error *error) {
  return batch(result, scope, objects, object_count, nullptr, call, KVC_OP_OBJECT_DELETE, error,
               [](ScopeUse &use, kvc_result &r, auto &items, auto &, Error &e) { return use.store().object_delete(r, use.scope(), items, e); });
}

kvc_status kvc_object_list(kvc_object_entry *entries, size_t entry_capacity, size_t *entry_count, const kvc_scope *scope, const void *key,
                           size_t key_size, const kvc_call *call, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!entries || !entry_count) return fail(e, KVC_ERR_ARGUMENT, "%s is NULL", entries ? "entry_count" : "entries");
    if (key_size && !key) return fail(e, KVC_ERR_ARGUMENT, "key is NULL but key_size is %zu", key_size);
    KVC_TRY(check_call(call, e));
    ScopeUse use;
    KVC_TRY(use.enter(token_of(scope), e));
    return use.store().object_list(entries, entry_capacity, entry_count, use.scope(), {static_cast<const char *>(key), key_size}, e);
  });
}
