#include "kvc/view.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_view_acquire(kvc_view **out, kvc_rows *, const kvc_seq *, uint32_t, uint64_t, uint32_t, kvc_error *error) {
  if (out) *out = nullptr;
  return unsupported(error, "kvc_view_acquire");
}

kvc_status kvc_view_release(kvc_view *view, kvc_error *error) {
  if (!view) return KVC_OK;
  return unsupported(error, "kvc_view_release");
}
