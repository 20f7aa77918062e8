#include "kvc/seq.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "api/rows_in.h"

using namespace kvc;
using namespace kvc::api;

namespace {

using Mode = SeqUse::Mode;

/// In turns: two streams arrive sooner than one behind the other.  Addresses are numbers here: nothing has said yet that they are any.
[[gnu::always_inline]] inline void fetch_two(uintptr_t k, uintptr_t v, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(reinterpret_cast<const void *>(k + at), 0, 2);
    __builtin_prefetch(reinterpret_cast<const void *>(v + at), 0, 2);
  }
}

/// The rows of a decode step come one token at a time.  Asked for before anything is checked, they arrive while it is, and while the rows of
/// the call before are still on their way to memory, which entering a handle waits for.  Fetching never faults.
/// No address may depend on a member that the host just zeroed: it cannot be read before that store, too, is through.  Branches may, they are
/// guessed.  Inlined always: the compiler takes a function that only fetches for one without effect.
[[gnu::always_inline]] inline void fetch_ahead(const kvc_rows *rows, size_t row_count) {
  if (row_count != 1 || !rows || rows->size < sizeof(kvc_rows) || rows->token_count != 1 || rows->layer_count != 1 || rows->blocks) return;
  const uint64_t row_bytes = rows->k.token_stride ? rows->k.token_stride : rows->k.bytes, bytes = std::min<uint64_t>(row_bytes, 2048);  // more do not fly at once
  const auto k = reinterpret_cast<uintptr_t>(rows->k.data), v = reinterpret_cast<uintptr_t>(rows->v.data);
  if (rows->slot_begin == 0) fetch_two(k, v, bytes);
  else fetch_two(k + rows->slot_begin * rows->k.token_stride, v + rows->slot_begin * rows->v.token_stride, bytes);
}

kvc_status read_tokens(std::span<const int32_t> *out, const int32_t *tokens, size_t count, Error &error) {
  if (count && !tokens) return fail(error, KVC_ERR_ARGUMENT, "tokens is NULL but token_count is %zu", count);
  *out = {tokens, count};
  return KVC_OK;
}

/// kvc_seq_options whose extras outlive the call if it is queued.
kvc_status read_seq_options(kvc_seq_options &out, const kvc_seq_options *options, Intake &in, Error &error) {
  KVC_TRY(read_options(out, options, "options", error));
  if (!in.queued() || !out.extras) return KVC_OK;
  kvc_extra *extras = in.copies().copy(out.extras, out.extra_count);
  for (uint64_t i = 0; i < out.extra_count; i++)
    if (extras[i].data_size <= kvc::seq::extra_data_max) extras[i].data = in.bytes(extras[i].data, extras[i].data_size);  // else refused by its size
  out.extras = extras;
  return KVC_OK;
}

struct MatchCall {
  static constexpr uint32_t operation = KVC_OP_MATCH;
  kvc_seq_options options;
  HandleOut<kvc_seq> out;
  Output<kvc_match_info> info{nullptr, "info"};
  ScopeUse use;
  std::span<const int32_t> tokens;

  kvc_status read(Intake &in, Error &e, kvc_seq **seq, kvc_match_info *user_info, const kvc_scope *scope, const int32_t *ids, size_t id_count, const kvc_seq_options *o) {
    KVC_TRY(read_seq_options(options, o, in, e));
    KVC_TRY(out.read(seq, in, e, (options.flags & KVC_SEQ_PEEK) ? nullptr : "out is NULL: only KVC_SEQ_PEEK goes without a sequence"));
    info = {user_info, "info"};
    KVC_TRY(info.check(e));
    KVC_TRY(in.enter(use, scope, e));
    return read_tokens(&tokens, ids, id_count, e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    uint64_t token = 0;
    KVC_TRY(use.store().match(&token, info.value(), use.scope(), tokens, options, e));
    r.done = info.value().tokens;
    out.give(token, r.seq);
    info.write();
    return KVC_OK;
  }
};

struct AppendCall {
  static constexpr uint32_t operation = KVC_OP_APPEND;
  SeqUse use;
  std::span<const int32_t> ids;
  RowsIn rows;

  [[gnu::always_inline]] inline kvc_status read(Intake &in, Error &e, kvc_seq *seq, const int32_t *tokens, size_t token_count, const kvc_rows *r, size_t row_count) {
    if (!in.queued()) fetch_ahead(r, row_count);
    KVC_TRY(in.enter(use, seq, Mode::exclusive, e));
    KVC_TRY(read_tokens(&ids, tokens, token_count, e));
    return rows.read(r, row_count, use.seq(), in, e);
  }
  kvc_status run(kvc_result &, Error &e) { return use.store().append(use.seq(), ids, rows.span(), e); }
  void tell(kvc_result &r) { store::tell_appended(r, rows.span(), *use.seq().part); }
};

struct GatherCall {
  static constexpr uint32_t operation = KVC_OP_GATHER;
  SeqUse use;
  RowsIn rows;

  kvc_status read(Intake &in, Error &e, const kvc_seq *seq, const kvc_rows *r, size_t row_count) {
    KVC_TRY(in.enter(use, seq, Mode::shared, e));
    return rows.read(r, row_count, use.seq(), in, e);
  }
  kvc_status run(kvc_result &r, Error &e) { return use.store().gather(r, use.seq(), rows.span(), e); }
};

const char *read_path(const char *path, Intake &in) { return path ? static_cast<const char *>(in.bytes(path, std::strlen(path) + 1)) : nullptr; }

struct SaveCall {
  static constexpr uint32_t operation = KVC_OP_SAVE;
  SeqUse use;
  const char *path;

  kvc_status read(Intake &in, Error &e, const kvc_seq *seq, const char *to) {
    KVC_TRY(in.enter(use, seq, Mode::shared, e));
    path = read_path(to, in);
    return KVC_OK;
  }
  kvc_status run(kvc_result &, Error &e) { return use.store().save(use.seq(), path, e); }
};

struct RestoreCall {
  static constexpr uint32_t operation = KVC_OP_RESTORE;
  HandleOut<kvc_seq> out;
  ScopeUse use;
  const char *path;
  kvc_seq_options options;

  kvc_status read(Intake &in, Error &e, kvc_seq **seq, const kvc_scope *scope, const char *from, const kvc_seq_options *o) {
    KVC_TRY(out.read(seq, in, e));
    KVC_TRY(in.enter(use, scope, e));
    path = read_path(from, in);
    return read_seq_options(options, o, in, e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    uint64_t token;
    KVC_TRY(use.store().restore(&token, use.scope(), path, options, e));
    out.give(token, r.seq);
    return KVC_OK;
  }
};

struct LeaseCall {
  static constexpr uint32_t operation = KVC_OP_LEASE;
  HandleOut<kvc_lease> out;
  SeqUse use;
  uint64_t token_begin, token_count, lease_ms;

  kvc_status read(Intake &in, Error &e, kvc_lease **lease, const kvc_seq *seq, uint64_t begin, uint64_t count, uint64_t ms) {
    KVC_TRY(out.read(lease, in, e));
    token_begin = begin, token_count = count, lease_ms = ms;
    return in.enter(use, seq, Mode::shared, e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    uint64_t token;
    KVC_TRY(use.store().seq_lease(&token, use.seq(), token_begin, token_count, lease_ms, e));
    out.give(token, r.lease);
    return KVC_OK;
  }
};

}  // namespace

kvc_status kvc_seq_create(kvc_seq **out, const kvc_scope *scope, const kvc_seq_options *options, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    ScopeUse use;
    KVC_TRY(use.enter(token_of(scope), e));
    kvc_seq_options o;
    KVC_TRY(read_options(o, options, "options", e));
    uint64_t token;
    KVC_TRY(use.store().seq_create(&token, use.scope(), o, e));
    *out = reinterpret_cast<kvc_seq *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_match(kvc_seq **out, kvc_match_info *info, const kvc_scope *scope, const int32_t *tokens, size_t token_count,
                     const kvc_seq_options *options, const kvc_call *call, kvc_error *error) {
  HandleOut<kvc_seq>::clear(out);
  return call_plain<MatchCall>(call, error, out, info, scope, tokens, token_count, options);
}

kvc_status kvc_append(kvc_seq *seq, const int32_t *tokens, size_t token_count, const kvc_rows *rows, size_t row_count, const kvc_call *call,
                      kvc_error *error) {
  return call_plain<AppendCall>(call, error, seq, tokens, token_count, rows, row_count);
}

kvc_status kvc_seq_identify(kvc_seq *seq, const kvc_extra *extras, size_t extra_count, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::exclusive, e));
    if (extra_count && !extras) return fail(e, KVC_ERR_ARGUMENT, "extras is NULL but extra_count is %zu", extra_count);
    return use.store().identify(use.seq(), {extras, extra_count}, e);
  });
}

kvc_status kvc_gather(kvc_result *result, const kvc_seq *seq, const kvc_rows *rows, size_t row_count, const kvc_call *call, kvc_error *error) {
  return call_with_result<GatherCall>(result, call, error, seq, rows, row_count);
}

kvc_status kvc_seq_fork(kvc_seq **out, const kvc_seq *seq, uint64_t tokens, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::shared, e));
    uint64_t token;
    KVC_TRY(use.store().fork(&token, use.seq(), tokens, e));
    *out = reinterpret_cast<kvc_seq *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_seq_truncate(kvc_seq *seq, uint64_t tokens, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::exclusive, e));
    return use.store().truncate(use.seq(), tokens, e);
  });
}

kvc_status kvc_seq_get_info(kvc_seq_info *info, const kvc_seq *seq, kvc_error *error) {
  return get_info(info, "info", error, [&](kvc_seq_info &out, Error &e) -> kvc_status {
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::look, e));
    use.store().seq_info(out, use.seq());
    return KVC_OK;
  });
}

kvc_status kvc_seq_release(kvc_seq *seq, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!seq) return KVC_OK;
    const Token token = token_of(seq);
    void *object;
    KVC_TRY(base::store_of(&object, token, HandleKind::seq, e));
    auto *store = static_cast<Store *>(object);
    base::HandleTable &table = store->seqs();
    kvc_status status = table.enter_exclusive(&object, token);
    while (status == KVC_ERR_BUSY) {  // the last of its queued calls will end it
      if ((status = table.retire_queued(token)) == KVC_OK) return KVC_OK;
      if (status == KVC_ERR_BUSY) status = table.enter_exclusive(&object, token);
    }
    if (status == KVC_ERR_STALE) return fail(e, status, "kvc_seq was released before");
    if (status != KVC_OK) return fail(e, status, "kvc_seq is in use by another thread: this call must be alone on it");
    store->seq_release(*static_cast<store::Sequence *>(object), token);
    return KVC_OK;
  });
}

kvc_status kvc_seq_lease(kvc_lease **out, const kvc_seq *seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, const kvc_call *call,
                         kvc_error *error) {
  HandleOut<kvc_lease>::clear(out);
  return call_plain<LeaseCall>(call, error, out, seq, token_begin, token_count, lease_ms);
}

kvc_status kvc_lease_renew(kvc_lease *lease, uint64_t lease_ms, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    void *object;
    KVC_TRY(base::store_of(&object, token_of(lease), HandleKind::lease, e));
    return static_cast<Store *>(object)->lease_renew(token_of(lease), lease_ms, e);
  });
}

kvc_status kvc_lease_release(kvc_lease *lease, kvc_error *error) { return release_handle<&Store::lease_release>(lease, HandleKind::lease, error); }

kvc_status kvc_seq_save(const kvc_seq *seq, const char *path, const kvc_call *call, kvc_error *error) {
  return call_plain<SaveCall>(call, error, seq, path);
}

kvc_status kvc_seq_restore(kvc_seq **out, const kvc_scope *scope, const char *path, const kvc_seq_options *options, const kvc_call *call,
                           kvc_error *error) {
  HandleOut<kvc_seq>::clear(out);
  return call_plain<RestoreCall>(call, error, out, scope, path, options);
}

kvc_status kvc_seq_importance(kvc_seq *, uint32_t, uint32_t, uint64_t, const float *, size_t, kvc_error *error) { return unsupported(error, "kvc_seq_importance"); }
kvc_status kvc_seq_budget(kvc_seq *, const kvc_precision *, kvc_error *error) { return unsupported(error, "kvc_seq_budget"); }
