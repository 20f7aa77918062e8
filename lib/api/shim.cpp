#include "api/shim.h"

#include <algorithm>
#include <cstddef>

namespace kvc::api {

void write_error(kvc_error *user, const Error &error, kvc_status status) {
  if (!user || user->size < sizeof(uint32_t) * 2) return;
  kvc_error out{};
  out.size = user->size;
  out.status = status;
  out.retry = base::retry_of(status, error);
  out.system_error = error.system_error;
  std::memcpy(out.message, error.message, std::strlen(error.message));
  const size_t bytes = std::min<size_t>(out.size, sizeof out);
  std::memcpy(user, &out, bytes);
  if (bytes > offsetof(kvc_error, message)) user->message[base::fitting_bytes(out.message, bytes - offsetof(kvc_error, message))] = '\0';  // of a size that cuts it, too
}

kvc_status store_of(Store **out, const kvc_store *handle, Error &error) {
  void *object;
  KVC_TRY(base::store_of(&object, token_of(handle), HandleKind::store, error));
  *out = static_cast<Store *>(object);
  return KVC_OK;
}

kvc_status check_call(const kvc_call *call, Error &error) {
  if (!call) return KVC_OK;
  kvc_call c;
  KVC_TRY(read_struct(c, call, call->size, "call", error));
  KVC_TRY(check_call_flags(c, error));
  if (c.queue) return fail(error, KVC_ERR_UNSUPPORTED, "call.queue: this call cannot be queued");
  if (c.flags & KVC_CALL_MORE) return fail(error, KVC_ERR_ARGUMENT, "call.flags KVC_CALL_MORE without a queue");
  return KVC_OK;
}

kvc_status check_call_flags(const kvc_call &c, Error &error) {
  constexpr uint32_t known = KVC_CALL_MORE | KVC_CALL_LOCAL | KVC_CALL_HOT | KVC_CALL_DETACH;
  if (c.flags & ~known) return fail(error, KVC_ERR_TOO_NEW, "call.flags 0x%x: unknown bits", c.flags & ~known);
  if (c.flags & KVC_CALL_DETACH) return fail(error, KVC_ERR_ARGUMENT, "call.flags KVC_CALL_DETACH: only a prefetch takes it");
  return KVC_OK;
}

void begin_result(kvc_result &result, uint32_t size, uint32_t operation, const kvc_call *call) {
  result = kvc_result{};
  result.size = size;
  result.operation = operation;
  if (call && call->size >= offsetof(kvc_call, user) + sizeof call->user) result.user = call->user;
}

SeqUse::~SeqUse() {
  if (!seq_ || mode_ == Mode::queued) return;
  if (mode_ != Mode::look) store_->slide(*seq_);
  if (mode_ == Mode::exclusive) store_->seqs().leave_exclusive(token_);
  else store_->seqs().leave_shared(token_);
}

kvc_status SeqUse::name(const kvc_seq *handle, Error &error) {
  token_ = token_of(handle);
  void *object;
  KVC_TRY(base::store_of(&object, token_, HandleKind::seq, error));
  store_ = static_cast<Store *>(object);
  return KVC_OK;
}

kvc_status SeqUse::enter(const kvc_seq *handle, Mode mode, Error &error, const kvc_call *call) {
  kvc_status status = enter_now(handle, mode, error);
  if (status == KVC_ERR_BUSY) [[unlikely]] {
    const uint64_t deadline_ns = store_->queues().deadline_ns(timeout_of(call));
    for (; status == KVC_ERR_BUSY; status = enter_now(handle, mode, error)) KVC_TRY(store_->queues().wait_line(token_, deadline_ns, error));
  }
  return status;
}

kvc_status SeqUse::enter_now(const kvc_seq *handle, Mode mode, Error &error) {
  KVC_TRY(name(handle, error));
  mode_ = mode;
  void *object;
  base::HandleTable &table = store_->seqs();
  const kvc_status status = mode == Mode::exclusive ? table.enter_exclusive(&object, token_) : table.enter_shared(&object, token_);
  if (status == KVC_ERR_STALE) return fail(error, status, "kvc_seq was released before");
  if (status == KVC_ERR_BUSY) return fail(error, status, "queued calls are on kvc_seq");
  if (status != KVC_OK)
    return fail(error, status, mode == Mode::exclusive ? "kvc_seq is in use by another thread: this call must be alone on it" : "kvc_seq is being written by another thread");
  seq_ = static_cast<store::Sequence *>(object);
  if (mode == Mode::look) return KVC_OK;
  store_->use(*seq_);
  if (table.lapsed(token_)) store_->revive(*seq_, token_);
  return KVC_OK;
}

}  // namespace kvc::api
