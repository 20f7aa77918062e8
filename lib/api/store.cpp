#include "kvc/store.h"

#include "api/call.h"

using namespace kvc;
using namespace kvc::api;

namespace {

struct VerifyCall {
  static constexpr uint32_t operation = KVC_OP_VERIFY;
  Output<kvc_verify_info> info{nullptr, "info"};
  Store *store;

  kvc_status read(Intake &in, Error &e, kvc_verify_info *user_info, const kvc_store *handle) {
    info = {user_info, "info"};
    KVC_TRY(info.check(e));
    return in.enter(&store, handle, e);
  }
  kvc_status run(kvc_result &, Error &e) {
    const kvc_status status = store->verify(info.value(), e);
    info.write();
    return status;
  }
};

struct ClearCall {
  static constexpr uint32_t operation = KVC_OP_SCOPE_CLEAR;
  ScopeUse use;

  kvc_status read(Intake &in, Error &e, const kvc_scope *scope) { return in.enter(use, scope, e); }
  kvc_status run(kvc_result &r, Error &) {
    use.store().scope_clear(r, use.scope());
    return KVC_OK;
  }
};

}  // namespace

kvc_status kvc_open(kvc_store **out, const char *uri, const kvc_store_options *options, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    kvc_store_options o;
    KVC_TRY(read_options(o, options, "options", e));
    uint64_t token;
    KVC_TRY(Store::open(&token, uri, o, {}, e));
    *out = reinterpret_cast<kvc_store *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_close(kvc_store *store, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!store) return KVC_OK;
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    return s->close(e);
  });
}

kvc_status kvc_store_step(uint32_t *more, kvc_store *store, uint64_t budget_us, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    if (!more) return fail(e, KVC_ERR_ARGUMENT, "more is NULL");
    KVC_TRY(s->queues().step(more, budget_us, e));
    if (s->expire()) *more = 1;
    return KVC_OK;
  });
}

kvc_status kvc_store_flush(kvc_store *store, const kvc_call *call, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    KVC_TRY(check_call(call, e));
    return fail(e, KVC_ERR_UNSUPPORTED, "kvc_store_flush: a \"mem:\" store has nothing durable");
  });
}

kvc_status kvc_store_get_info(kvc_store_info *info, const kvc_store *store, kvc_error *error) {
  return get_info(info, "info", error, [&](kvc_store_info &out, Error &e) -> kvc_status {
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    s->info(out);
    return KVC_OK;
  });
}

kvc_status kvc_store_verify(kvc_verify_info *info, kvc_store *store, const kvc_call *call, kvc_error *error) {
  return call_plain<VerifyCall>(call, error, info, store);
}

kvc_status kvc_region_register(kvc_region **out, kvc_store *store, void *data, size_t data_size, uint32_t memory, int32_t, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    uint64_t token;
    KVC_TRY(s->region_register(&token, data, data_size, memory, e));
    *out = reinterpret_cast<kvc_region *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_region_release(kvc_region *region, kvc_error *error) { return release_handle<&Store::region_release>(region, HandleKind::region, error); }

kvc_status kvc_shape_check(kvc_shape_info *info, const kvc_shape *shape, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!shape) return fail(e, KVC_ERR_ARGUMENT, "shape is NULL");
    Output<kvc_shape_info> out(info, "info");
    KVC_TRY(out.check(e));
    kvc_shape s;
    KVC_TRY(read_struct(s, shape, shape->size, "shape", e));
    KVC_TRY(store::shape_info(out.value(), s, e));
    out.write();
    return KVC_OK;
  });
}

kvc_status kvc_scope_create(kvc_scope **out, kvc_store *store, const kvc_scope_options *options, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    if (!options) return fail(e, KVC_ERR_ARGUMENT, "options is NULL: a scope names its model");
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    kvc_scope_options o;
    KVC_TRY(read_options(o, options, "options", e));
    kvc_shape shape;
    if (o.shape) {
      KVC_TRY(read_struct(shape, o.shape, o.shape->size, "shape", e));
      o.shape = &shape;
    }
    uint64_t token;
    KVC_TRY(s->scope_create(&token, o, e));
    *out = reinterpret_cast<kvc_scope *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_scope_get_info(kvc_scope_info *info, const kvc_scope *scope, kvc_error *error) {
  return get_info(info, "info", error, [&](kvc_scope_info &out, Error &e) -> kvc_status {
    ScopeUse use;
    KVC_TRY(use.enter(token_of(scope), e));
    use.store().scope_info(out, use.scope());
    return KVC_OK;
  });
}

kvc_status kvc_scope_clear(kvc_result *result, kvc_scope *scope, const kvc_call *call, kvc_error *error) {
  return call_with_result<ClearCall>(result, call, error, static_cast<const kvc_scope *>(scope));
}

kvc_status kvc_scope_release(kvc_scope *scope, kvc_error *error) { return release_handle<&Store::scope_release>(scope, HandleKind::scope, error); }
