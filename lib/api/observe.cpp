#include "kvc/observe.h"

#include "api/shim.h"
#include "store/queue.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_metrics_text(char *text, size_t text_capacity, size_t *text_size, const kvc_store *store, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!text_size) return fail(e, KVC_ERR_ARGUMENT, "text_size is NULL");
    if (!text && text_capacity) return fail(e, KVC_ERR_ARGUMENT, "text is NULL but text_capacity is %zu", text_capacity);
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    return s->metrics_text(text, text_capacity, text_size, e);
  });
}

kvc_status kvc_event_watch(kvc_queue *queue, const kvc_scope *scope, uint32_t mask, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    store::QueueUse use;
    KVC_TRY(use.enter(token_of(queue), e));
    ScopeUse of;
    if (scope) KVC_TRY(of.enter(token_of(scope), e));
    if (scope && &of.store() != &use.store()) return fail(e, KVC_ERR_MISUSE, "kvc_scope of another store than the queue");
    return use.store().event_watch(use.queue(), scope ? &of.scope() : nullptr, mask, e);
  });
}

kvc_status kvc_event_drain(kvc_event *events, size_t event_capacity, size_t *event_count, kvc_queue *queue, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!event_count) return fail(e, KVC_ERR_ARGUMENT, "event_count is NULL");
    *event_count = 0;
    if (!events) return fail(e, KVC_ERR_ARGUMENT, "events is NULL");
    if (event_capacity == 0) return fail(e, KVC_ERR_ARGUMENT, "event_capacity 0: nothing to fill");
    KVC_TRY(check_size(events->size, "events[0]", e));
    store::QueueUse use;
    KVC_TRY(use.enter(token_of(queue), e));
    *event_count = use.store().event_drain(events, event_capacity, use.queue());
    return KVC_OK;
  });
}

kvc_status kvc_trace_record(kvc_store *store, const char *path, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    return s->trace_record(path, e);
  });
}

kvc_status kvc_metrics_read(kvc_metrics *metrics, const kvc_store *store, kvc_error *error) {
  return get_info(metrics, "metrics", error, [&](kvc_metrics &out, Error &e) -> kvc_status {
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    s->metrics(out);
    return KVC_OK;
  });
}
