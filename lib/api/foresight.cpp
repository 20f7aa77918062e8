#include "api/rows_in.h"
#include "kvc/seq.h"

using namespace kvc;
using namespace kvc::api;

namespace {

struct PrefetchCall {
  static constexpr uint32_t operation = KVC_OP_PREFETCH;
  SeqUse use;
  RowsIn rows;
  uint32_t tier;
  bool detached, skipped = false;

  kvc_status read(Intake &in, Error &e, const kvc_seq *seq, const kvc_rows *r, size_t row_count, uint32_t to, bool detach) {
    tier = to, detached = detach;
    const kvc_status status = detached ? in.enter_now(use, seq, SeqUse::Mode::shared, e) : in.enter(use, seq, SeqUse::Mode::shared, e);
    if (status == KVC_ERR_BUSY && detached) return skipped = true, KVC_OK;
    KVC_TRY(status);
    return rows.read(r, row_count, use.seq(), in, e);
  }
  kvc_status run(kvc_result &r, Error &e) {
    if (skipped) return KVC_OK;
    const kvc_status status = use.store().prefetch(r, use.seq(), rows.span(), tier, e);
    return (status == KVC_ERR_GONE || status == KVC_ERR_NO_SNAPSHOT) && detached ? KVC_OK : status;  // what does not arrive is nobody's to hear of
  }
};

}  // namespace

kvc_status kvc_seq_prefetch(kvc_result *result, const kvc_seq *seq, const kvc_rows *rows, size_t row_count, uint32_t tier, const kvc_call *call, kvc_error *error) {
  if (!call || call->size < offsetof(kvc_call, flags) + sizeof call->flags || !(call->flags & KVC_CALL_DETACH)) return call_with_result<PrefetchCall>(result, call, error, seq, rows, row_count, tier, false);
  kvc_call alone;
  const kvc_status status = guard(error, [&](Error &e) -> kvc_status {
    KVC_TRY(read_struct(alone, call, call->size, "call", e));
    if (alone.queue) return fail(e, KVC_ERR_ARGUMENT, "call.queue with KVC_CALL_DETACH, which delivers no result");
    return KVC_OK;
  });
  if (status != KVC_OK) return status;
  alone.flags &= ~static_cast<uint32_t>(KVC_CALL_DETACH);
  return call_with_result<PrefetchCall>(result, &alone, error, seq, rows, row_count, tier, true);
}

kvc_status kvc_seq_hint(kvc_seq *seq, const kvc_hint *hint, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!hint) return fail(e, KVC_ERR_ARGUMENT, "hint is NULL");
    kvc_hint h;
    KVC_TRY(read_struct(h, hint, hint->size, "hint", e));
    SeqUse use;
    KVC_TRY(use.enter(seq, SeqUse::Mode::exclusive, e));
    return use.store().hint(use.seq(), h, e);
  });
}
