#include "kvc/queue.h"

#include "api/shim.h"

using namespace kvc;
using namespace kvc::api;

kvc_status kvc_queue_create(kvc_queue **out, kvc_store *, const kvc_queue_options *, kvc_error *error) {
  if (out) *out = nullptr;
  return unsupported(error, "kvc_queue_create");
}

kvc_status kvc_queue_fd(int *, const kvc_queue *, kvc_error *error) {
  return unsupported(error, "kvc_queue_fd");
}

kvc_status kvc_queue_submit(kvc_queue *, kvc_error *error) {
  return unsupported(error, "kvc_queue_submit");
}

kvc_status kvc_queue_cancel(kvc_queue *, uint64_t, kvc_error *error) {
  return unsupported(error, "kvc_queue_cancel");
}

kvc_status kvc_queue_drain(kvc_result *, size_t, size_t *, kvc_queue *, uint64_t, kvc_error *error) {
  return unsupported(error, "kvc_queue_drain");
}

kvc_status kvc_queue_release(kvc_queue *queue, kvc_error *error) {
  if (!queue) return KVC_OK;
  return unsupported(error, "kvc_queue_release");
}
