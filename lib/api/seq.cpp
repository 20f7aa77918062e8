#include "kvc/seq.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

namespace {

using Mode = SeqUse::Mode;

/// In turns: two streams arrive sooner than one behind the other.
[[gnu::always_inline]] inline void fetch_two(const void *k, const void *v, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(static_cast<const char *>(k) + at, 0, 2);
    __builtin_prefetch(static_cast<const char *>(v) + at, 0, 2);
  }
}

/// The rows of a decode step come one token at a time.  Asked for before anything is checked, they arrive while it is, and while the rows of
/// the call before are still on their way to memory, which entering a handle waits for.  Fetching never faults.
/// No address may depend on a member that the host just zeroed: it cannot be read before that store, too, is through.  Branches may, they are
/// guessed.  Inlined always: the compiler takes a function that only fetches for one without effect.
[[gnu::always_inline]] inline void fetch_ahead(const kvc_rows *rows, size_t row_count) {
  if (row_count != 1 || !rows || rows->size < sizeof(kvc_rows) || rows->token_count != 1 || rows->layer_count != 1 || rows->blocks) return;
  const uint64_t row_bytes = rows->k.token_stride ? rows->k.token_stride : rows->k.bytes, bytes = std::min<uint64_t>(row_bytes, 2048);  // more do not fly at once
  const auto *k = static_cast<const char *>(rows->k.data), *v = static_cast<const char *>(rows->v.data);
  if (rows->slot_begin == 0) fetch_two(k, v, bytes);
  else fetch_two(k + rows->slot_begin * rows->k.token_stride, v + rows->slot_begin * rows->v.token_stride, bytes);
}

/// The caller's rows as complete structs of ours: where they lie if they are of our size, else copied; few of them need no memory but the stack.
class RowsIn {
 public:
  [[nodiscard]] kvc_status read(const kvc_rows *rows, size_t count, std::pmr::memory_resource *resource, Error &error) {
    if (count && !rows) return fail(error, KVC_ERR_ARGUMENT, "rows is NULL but row_count is %zu", count);
    if (count && rows->size == sizeof(kvc_rows) && count <= count_max) {
      span_ = {rows, count};
      return KVC_OK;
    }
    if (count > stack_.size()) {
      if (count > count_max) return fail(error, KVC_ERR_ARGUMENT, "row_count %zu: at most %u runs a call", count, count_max);
      heap_.emplace(count, resource);
    }
    kvc_rows *const to = heap_ ? heap_->data() : stack_.data();
    const uint32_t size = count ? rows->size : 0;
    for (size_t i = 0; i < count; i++) {
      const auto *from = reinterpret_cast<const kvc_rows *>(reinterpret_cast<const char *>(rows) + i * size);
      KVC_TRY(read_struct(to[i], from, size, "rows", error));
    }
    span_ = {to, count};
    return KVC_OK;
  }
  std::span<const kvc_rows> span() const { return span_; }

 private:
  static constexpr uint32_t count_max = 1u << 20;
  std::array<kvc_rows, 2> stack_;
  std::optional<std::pmr::vector<kvc_rows>> heap_;
  std::span<const kvc_rows> span_;
};

kvc_status read_tokens(std::span<const int32_t> *out, const int32_t *tokens, size_t count, Error &error) {
  if (count && !tokens) return fail(error, KVC_ERR_ARGUMENT, "tokens is NULL but token_count is %zu", count);
  *out = {tokens, count};
  return KVC_OK;
}

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
  return guard(error, [&](Error &e) -> kvc_status {
    kvc_seq_options o;
    KVC_TRY(read_options(o, options, "options", e));
    if (!out && !(o.flags & KVC_SEQ_PEEK)) return fail(e, KVC_ERR_ARGUMENT, "out is NULL: only KVC_SEQ_PEEK goes without a sequence");
    if (out) *out = nullptr;
    Output<kvc_match_info> output(info, "info");
    KVC_TRY(output.check(e));
    KVC_TRY(check_call(call, e));
    ScopeUse use;
    KVC_TRY(use.enter(token_of(scope), e));
    std::span<const int32_t> ids;
    KVC_TRY(read_tokens(&ids, tokens, token_count, e));
    uint64_t token = 0;
    KVC_TRY(use.store().match(&token, output.value(), use.scope(), ids, o, e));
    if (out) *out = reinterpret_cast<kvc_seq *>(token);
    output.write();
    return KVC_OK;
  });
}

kvc_status kvc_append(kvc_seq *seq, const int32_t *tokens, size_t token_count, const kvc_rows *rows, size_t row_count, const kvc_call *call,
                      kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    KVC_TRY(check_call(call, e));
    fetch_ahead(rows, row_count);
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::exclusive, e));
    std::span<const int32_t> ids;
    KVC_TRY(read_tokens(&ids, tokens, token_count, e));
    RowsIn in;
    KVC_TRY(in.read(rows, row_count, use.store().resource(), e));
    return use.store().append(use.seq(), ids, in.span(), e);
  });
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
  return guard(error, [&](Error &e) -> kvc_status {
    return with_result(result, KVC_OP_GATHER, call, e, [&](kvc_result &r) -> kvc_status {
      KVC_TRY(check_call(call, e));
      SeqUse use;
      KVC_TRY(use.enter(seq, Mode::shared, e));
      RowsIn in;
      KVC_TRY(in.read(rows, row_count, use.store().resource(), e));
      return use.store().gather(r, use.seq(), in.span(), e);
    });
  });
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
  return guard(error, [&](Error &e) -> kvc_status {
    if (!info) return fail(e, KVC_ERR_ARGUMENT, "info is NULL");
    Output<kvc_seq_info> out(info, "info");
    KVC_TRY(out.check(e));
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::look, e));
    use.store().seq_info(out.value(), use.seq());
    out.write();
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
    const kvc_status status = store->seqs().enter_exclusive(&object, token);
    if (status == KVC_ERR_STALE) return fail(e, status, "kvc_seq was released before");
    if (status != KVC_OK) return fail(e, status, "kvc_seq is in use by another thread: this call must be alone on it");
    store->seq_release(*static_cast<store::Sequence *>(object), token);
    return KVC_OK;
  });
}

kvc_status kvc_seq_lease(kvc_lease **out, const kvc_seq *seq, uint64_t token_begin, uint64_t token_count, uint64_t lease_ms, const kvc_call *call,
                         kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    KVC_TRY(check_call(call, e));
    SeqUse use;
    KVC_TRY(use.enter(seq, Mode::shared, e));
    uint64_t token;
    KVC_TRY(use.store().seq_lease(&token, use.seq(), token_begin, token_count, lease_ms, e));
    *out = reinterpret_cast<kvc_lease *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_lease_renew(kvc_lease *lease, uint64_t lease_ms, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    void *object;
    KVC_TRY(base::store_of(&object, token_of(lease), HandleKind::lease, e));
    return static_cast<Store *>(object)->lease_renew(token_of(lease), lease_ms, e);
  });
}

kvc_status kvc_lease_release(kvc_lease *lease, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!lease) return KVC_OK;
    void *object;
    KVC_TRY(base::store_of(&object, token_of(lease), HandleKind::lease, e));
    return static_cast<Store *>(object)->lease_release(token_of(lease), e);
  });
}

kvc_status kvc_seq_prefetch(kvc_result *, const kvc_seq *, const kvc_rows *, size_t, uint32_t, const kvc_call *, kvc_error *error) {
  return unsupported(error, "kvc_seq_prefetch");
}
kvc_status kvc_seq_importance(kvc_seq *, uint32_t, uint32_t, uint64_t, const float *, size_t, kvc_error *error) { return unsupported(error, "kvc_seq_importance"); }
kvc_status kvc_seq_budget(kvc_seq *, const kvc_precision *, kvc_error *error) { return unsupported(error, "kvc_seq_budget"); }
kvc_status kvc_seq_hint(kvc_seq *, const kvc_hint *, kvc_error *error) { return unsupported(error, "kvc_seq_hint"); }
kvc_status kvc_seq_publish(kvc_seq *, const void *, size_t, uint64_t, const kvc_call *, kvc_error *error) { return unsupported(error, "kvc_seq_publish"); }
kvc_status kvc_seq_attach(kvc_seq **out, const kvc_scope *, const void *, size_t, const kvc_seq_options *, const kvc_call *, kvc_error *error) {
  if (out) *out = nullptr;
  return unsupported(error, "kvc_seq_attach");
}
kvc_status kvc_seq_withdraw(const kvc_scope *, const void *, size_t, kvc_error *error) { return unsupported(error, "kvc_seq_withdraw"); }
kvc_status kvc_seq_save(const kvc_seq *, const char *, const kvc_call *, kvc_error *error) { return unsupported(error, "kvc_seq_save"); }
kvc_status kvc_seq_restore(kvc_seq **out, const kvc_scope *, const char *, const kvc_seq_options *, const kvc_call *, kvc_error *error) {
  if (out) *out = nullptr;
  return unsupported(error, "kvc_seq_restore");
}
