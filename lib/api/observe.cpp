#include "kvc/observe.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_metrics_text(char *, size_t, size_t *, const kvc_store *, kvc_error *error) {
  return unsupported(error, "kvc_metrics_text");
}

kvc_status kvc_event_watch(kvc_queue *, const kvc_scope *, uint32_t, kvc_error *error) {
  return unsupported(error, "kvc_event_watch");
}

kvc_status kvc_event_drain(kvc_event *, size_t, size_t *, kvc_queue *, kvc_error *error) {
  return unsupported(error, "kvc_event_drain");
}

kvc_status kvc_trace_record(kvc_store *, const char *, kvc_error *error) {
  return unsupported(error, "kvc_trace_record");
}

kvc_status kvc_metrics_read(kvc_metrics *metrics, const kvc_store *store, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!metrics) return fail(e, KVC_ERR_ARGUMENT, "metrics is NULL");
    Output<kvc_metrics> out(metrics, "metrics");
    KVC_TRY(out.check(e));
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    s->metrics(out.value());
    out.write();
    return KVC_OK;
  });
}
