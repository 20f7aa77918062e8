#include <string_view>

#include "api/call.h"
#include "kvc/seq.h"

using namespace kvc;
using namespace kvc::api;

namespace {

kvc_status read_name(std::string_view *out, const void *name, size_t name_size, Intake &in, Error &error) {
  if (!name && name_size) return fail(error, KVC_ERR_ARGUMENT, "name is NULL but name_size is %zu", name_size);
  KVC_TRY(store::check_handover_name({static_cast<const char *>(name), name_size}, error));
  *out = {static_cast<const char *>(in.bytes(name, name_size)), name_size};
  return KVC_OK;
}

struct PublishCall {
  static constexpr uint32_t operation = KVC_OP_PUBLISH;
  SeqUse use;
  std::string_view name;
  uint64_t lease_ms;

  kvc_status read(Intake &in, Error &e, kvc_seq *seq, const void *bytes, size_t size, uint64_t ms) {
    lease_ms = ms;
    KVC_TRY(read_name(&name, bytes, size, in, e));
    return in.enter(use, seq, SeqUse::Mode::exclusive, e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    KVC_TRY(use.store().publish(use.seq(), name, lease_ms, e));
    r.done = use.seq().length;
    return KVC_OK;
  }
};

struct AttachCall {
  static constexpr uint32_t operation = KVC_OP_ATTACH;
  HandleOut<kvc_seq> out;
  ScopeUse use;
  std::string_view name;
  kvc_seq_options options;

  kvc_status read(Intake &in, Error &e, kvc_seq **seq, const kvc_scope *scope, const void *bytes, size_t size, const kvc_seq_options *o) {
    KVC_TRY(out.read(seq, in, e));
    KVC_TRY(read_options(options, o, "options", e));
    KVC_TRY(read_name(&name, bytes, size, in, e));
    KVC_TRY(in.enter(use, scope, e));
    return store::check_attach_options(options, use.scope(), e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    uint64_t token;
    KVC_TRY(use.store().attach(&token, &r.done, use.scope(), name, options, e));
    out.give(token, r.seq);
    return KVC_OK;
  }
};

}  // namespace

kvc_status kvc_seq_publish(kvc_seq *seq, const void *name, size_t name_size, uint64_t lease_ms, const kvc_call *call, kvc_error *error) {
  return call_plain<PublishCall>(call, error, seq, name, name_size, lease_ms);
}

kvc_status kvc_seq_attach(kvc_seq **out, const kvc_scope *scope, const void *name, size_t name_size, const kvc_seq_options *options, const kvc_call *call,
                          kvc_error *error) {
  HandleOut<kvc_seq>::clear(out);
  return call_plain<AttachCall>(call, error, out, scope, name, name_size, options);
}

kvc_status kvc_seq_withdraw(const kvc_scope *scope, const void *name, size_t name_size, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    Intake in(nullptr);
    std::string_view text;
    KVC_TRY(read_name(&text, name, name_size, in, e));
    ScopeUse use;
    KVC_TRY(in.enter(use, scope, e));
    return use.store().withdraw(use.scope(), text, e);
  });
}
