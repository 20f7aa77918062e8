#include "kvc/queue.h"

#include "api/call.h"

using namespace kvc;
using namespace kvc::api;
using store::QueueUse;

namespace {

/// Around what is done with a queue.
template <typename F>
kvc_status on_queue(const kvc_queue *queue, kvc_error *error, F &&body) {
  return guard(error, [&](Error &e) -> kvc_status {
    QueueUse use;
    KVC_TRY(use.enter(token_of(queue), e));
    return body(use.store().queues(), use.queue(), e);
  });
}

}  // namespace

kvc_status kvc_queue_create(kvc_queue **out, kvc_store *store, const kvc_queue_options *options, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!out) return fail(e, KVC_ERR_ARGUMENT, "out is NULL");
    *out = nullptr;
    Store *s;
    KVC_TRY(store_of(&s, store, e));
    kvc_queue_options o;
    KVC_TRY(read_options(o, options, "options", e));
    uint64_t token;
    KVC_TRY(s->queues().create(&token, o, e));
    *out = reinterpret_cast<kvc_queue *>(token);
    return KVC_OK;
  });
}

kvc_status kvc_queue_fd(int *fd, const kvc_queue *queue, kvc_error *error) {
  return on_queue(queue, error, [&](Queues &queues, store::Queue &q, Error &e) -> kvc_status {
    if (!fd) return fail(e, KVC_ERR_ARGUMENT, "fd is NULL");
    *fd = queues.fd(q);
    return KVC_OK;
  });
}

kvc_status kvc_queue_submit(kvc_queue *queue, kvc_error *error) {
  return on_queue(queue, error, [&](Queues &queues, store::Queue &q, Error &) {
    queues.submit(q);
    return KVC_OK;
  });
}

kvc_status kvc_queue_cancel(kvc_queue *queue, uint64_t user, kvc_error *error) {
  return on_queue(queue, error, [&](Queues &queues, store::Queue &q, Error &e) { return queues.cancel(q, user, e); });
}

kvc_status kvc_queue_drain(kvc_result *results, size_t result_capacity, size_t *result_count, kvc_queue *queue, uint64_t timeout_us, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!result_count) return fail(e, KVC_ERR_ARGUMENT, "result_count is NULL");
    *result_count = 0;
    if (!results) return fail(e, KVC_ERR_ARGUMENT, "results is NULL");
    if (result_capacity == 0) return fail(e, KVC_ERR_ARGUMENT, "result_capacity 0: nothing to fill");
    KVC_TRY(check_size(results->size, "results[0]", e));
    constexpr size_t handles_end = offsetof(kvc_result, lease) + sizeof results->lease;
    if (results->size < handles_end) return fail(e, KVC_ERR_ARGUMENT, "results[0].size %u: a result that could not say what handles it gives", results->size);
    QueueUse use;
    KVC_TRY(use.enter(token_of(queue), e));
    return use.store().queues().drain(results, result_capacity, result_count, use.queue(), timeout_us, e);
  });
}

kvc_status kvc_queue_release(kvc_queue *queue, kvc_error *error) {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!queue) return KVC_OK;
    void *object;
    KVC_TRY(base::store_of(&object, token_of(queue), HandleKind::queue, e));
    return static_cast<Store *>(object)->queues().release(token_of(queue), e);
  });
}
