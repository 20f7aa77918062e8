#include "kvc/view.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_view_acquire(kvc_view **out, kvc_rows *rows, const kvc_seq *seq, uint32_t layer, uint64_t token, uint32_t flags, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    if (!rows) return fail(e, KVC_ERR_ARGUMENT, "rows is NULL: a view is of no use without them");
    Output<kvc_rows> filled(rows, "rows");
    KVC_TRY(filled.check(e));
    SeqUse use;
    KVC_TRY(use.enter(seq, SeqUse::Mode::shared, e));
    uint64_t handle;
    KVC_TRY(use.store().view_acquire(&handle, filled.value(), use.seq(), layer, token, flags, e));
    *out = reinterpret_cast<kvc_view *>(handle);
    filled.write();
    return KVC_OK;
  });
}

kvc_status kvc_view_release(kvc_view *view, kvc_error *error) { return release_handle<&Store::view_release>(view, HandleKind::view, error); }
