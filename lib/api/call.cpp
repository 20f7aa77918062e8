#include "api/call.h"

namespace kvc::api {

kvc_status read_queued(kvc_call &out, store::QueueUse &queue, const kvc_call *call, Error &error) {
  KVC_TRY(read_struct(out, call, call->size, "call", error));
  KVC_TRY(check_call_flags(out, error));
  return queue.enter(token_of(out.queue), error);
}

kvc_status fail_description(const store::DescriptionFull &full, Error &error) {
  const auto most = static_cast<unsigned long long>(full.bytes_max);
  if (full.never) return base::fail_never(error, KVC_ERR_BUSY, "the description of this call alone takes more than description_bytes, which is %llu: make the queue with more", most);
  return fail(error, KVC_ERR_BUSY, "descriptions of calls in flight take most of %llu bytes: drain some results or raise description_bytes", most);
}

kvc_status Intake::enter_queued(SeqUse &use, const kvc_seq *handle, SeqUse::Mode mode, Error &error) {
  KVC_TRY(use.name(handle, error));
  KVC_TRY(is_of(use.store(), "kvc_seq", error));
  KVC_TRY(store_->queues().enter_line(*task_, token_of(handle), mode == SeqUse::Mode::exclusive, error));
  use.set_queued(*task_->seq);
  return KVC_OK;
}

}  // namespace kvc::api
