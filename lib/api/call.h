#pragma once
#include <span>

#include "api/shim.h"
#include "store/queue.h"

/// Calls that take a kvc_call: one description of each, run on the spot or queued.
///
///     struct GatherCall {
///       static constexpr uint32_t operation = KVC_OP_GATHER;
///       SeqUse use;
///       RowsIn rows;
///       /// Everything that can be checked and copied before the call returns; `args` are those of the C call.
///       kvc_status read(Intake &in, Error &e, const kvc_seq *seq, const kvc_rows *r, size_t n) {
///         KVC_TRY(in.enter(use, seq, SeqUse::Mode::shared, e));
///         return rows.read(r, n, in, e);
///       }
///       /// Later, on any thread.  KVC_ERR_FULL may be run again, so it has changed nothing then.
///       kvc_status run(kvc_result &r, Error &e) { return use.store().gather(r, use.seq(), rows.span(), e); }
///     };
///     kvc_status kvc_gather(kvc_result *result, const kvc_seq *seq, ...) { return call_with_result<GatherCall>(result, call, error, seq, rows, row_count); }
///
/// A C call without a kvc_result uses call_plain; its run still fills in the result, which a queue delivers.  What the rules of kvc_call ask for:
///     structs by value               read_struct, read_options: into members of the call
///     lists, block tables, keys      in.list, in.bytes: where they lie if it blocks, copied if it is queued
///     arrays, tokens, values, items, info structs    kept as pointers
///     handle outputs                 HandleOut: `read` checks, `give` hands over
/// Calls that gain from company say of which kind they are, and how many of them run as one (GetCall in object.cpp).
/// A call with outputs to set whatever came of it has `void settle(kvc_status)`, its last touch of lent memory.  What a call may throw in `read`
/// and `run` is std::bad_alloc and what in.list throws; both become statuses.
namespace kvc::api {

using store::Copies;
using store::Queues;
using store::Task;

/// Where the parts of a call go as they are read.
class Intake {
 public:
  explicit Intake(const kvc_call *call) : call_(call) {}
  Intake(const kvc_call *call, Store &of_queue, Task &task) : call_(call), store_(&of_queue), task_(&task) {}

  bool queued() const { return task_; }
  /// Of a queued call.
  Copies &copies() { return task_->copies; }
  /// Known once a handle was entered.
  Store &store() const { return *store_; }

  [[nodiscard]] kvc_status enter(SeqUse &use, const kvc_seq *handle, SeqUse::Mode mode, Error &error) {
    if (task_) [[unlikely]] return enter_queued(use, handle, mode, error);
    KVC_TRY(use.enter(handle, mode, error, call_));
    store_ = &use.store();
    return KVC_OK;
  }
  /// Of a call that blocks: BUSY when it would have to wait for queued calls.
  [[nodiscard]] kvc_status enter_now(SeqUse &use, const kvc_seq *handle, SeqUse::Mode mode, Error &error) {
    const kvc_status status = use.enter_now(handle, mode, error);
    if (status == KVC_OK || status == KVC_ERR_BUSY) store_ = &use.store();
    return status;
  }
  [[nodiscard]] kvc_status enter(ScopeUse &use, const kvc_scope *handle, Error &error) {
    KVC_TRY(use.enter(token_of(handle), error));
    return is_of(use.store(), "kvc_scope", error);
  }
  [[nodiscard]] kvc_status enter(Store **out, const kvc_store *handle, Error &error) {
    KVC_TRY(store_of(out, handle, error));
    return is_of(**out, "kvc_store", error);
  }

  /// A list of the caller's, its elements as they are.
  template <typename T>
  const T *list(const T *from, uint64_t count) {
    return task_ && from ? copies().copy(from, count) : from;
  }
  const void *bytes(const void *from, uint64_t count) { return list(static_cast<const uint8_t *>(from), count); }

 private:
  kvc_status enter_queued(SeqUse &use, const kvc_seq *handle, SeqUse::Mode mode, Error &error);
  kvc_status is_of(Store &store, const char *name, Error &error) {
    if (task_ && &store != store_) return fail(error, KVC_ERR_MISUSE, "%s of another store than call.queue", name);
    store_ = &store;
    return KVC_OK;
  }

  const kvc_call *call_;
  Store *store_ = nullptr;
  Task *task_ = nullptr;
};

/// The handle that a call makes: it goes where the caller said, or into the result of the queue.
template <typename H>
class HandleOut {
 public:
  /// For a call with such an output, before anything can fail.
  static void clear(H **out) {
    if (out) *out = nullptr;
  }
  /// `needed`: what a call that blocks without it is told; nullptr: it may.
  [[nodiscard]] kvc_status read(H **out, const Intake &in, Error &error, const char *needed = "out is NULL") {
    if (in.queued() && out) return fail(error, KVC_ERR_ARGUMENT, "out is not NULL: a queued call gives its handle in the result");
    if (!in.queued() && !out && needed) return fail(error, KVC_ERR_ARGUMENT, "%s", needed);
    out_ = out;
    return KVC_OK;
  }
  void give(uint64_t token, H *&in_result) { (out_ ? *out_ : in_result) = reinterpret_cast<H *>(token); }

 private:
  H **out_ = nullptr;
};

/// A kvc_call of a queued call, and its queue.
[[nodiscard]] kvc_status read_queued(kvc_call &out, store::QueueUse &queue, const kvc_call *call, Error &error);
[[nodiscard]] kvc_status fail_description(const store::DescriptionFull &full, Error &error);

/// Runs a call whose result somebody reads.
template <typename Call>
kvc_status run_and_tell(Call &call, kvc_result &result, Error &error) {
  const kvc_status status = call.run(result, error);
  if constexpr (requires { call.tell(result); })
    if (status == KVC_OK) call.tell(result);
  return status;
}

[[nodiscard]] inline store::Trace::Ids trace_ids(const kvc_call *call) {
  if (!call || call->size < offsetof(kvc_call, trace_low) + sizeof call->trace_low) return {};
  return {call->trace_high, call->trace_low};
}

/// A call as a queue keeps it.
template <typename Call>
class Queued final : public store::Work {
 public:
  Queued(Store &store, store::Trace::Ids ids) : store_(store), ids_(ids) {}
  Call call;
  kvc_status run(kvc_result &result, Error &error) override {
    return caught(error, [&] { return store_.trace().on() ? run_traced(result, error) : run_and_tell(call, result, error); });
  }
  void settle(kvc_status status) override {
    if constexpr (requires { call.settle(status); }) call.settle(status);
    if (waited_) [[unlikely]] add_span(store::Trace::now_ns(), status, 0);
  }
  const void *kind() override {
    if constexpr (requires { call.kind(); }) return store_.trace().on() ? nullptr : call.kind();  // each is a span
    else return nullptr;
  }
  void run_together(std::span<Task *const> tasks, std::span<bool> done) override {
    if constexpr (requires { call.kind(); }) Call::run_together(tasks, done);
  }

 private:
  /// A call that waits for room is the span of its last run; of one that waited in vain, its end is.
  [[gnu::noinline, gnu::cold]] kvc_status run_traced(kvc_result &result, Error &error) {
    const store::Trace::WithIds with(ids_);
    const uint64_t begin_ns = store::Trace::now_ns();
    const kvc_status status = run_and_tell(call, result, error);
    waited_ = status == KVC_ERR_FULL && !error.never && store_.queues().waits();
    if (!waited_) add_span(begin_ns, status, result.bytes);
    return status;
  }
  void add_span(uint64_t begin_ns, kvc_status status, uint64_t bytes) {
    const store::Trace::WithIds with(ids_);
    store_.trace().add(store::operation_name(Call::operation), begin_ns, status, bytes);
  }

  Store &store_;
  const store::Trace::Ids ids_;
  bool waited_ = false;
};

template <typename Call, typename... Args>
[[gnu::noinline]] kvc_status enqueue(const kvc_call *call, kvc_error *error, Args... args) noexcept {
  return guard(error, [&](Error &e) -> kvc_status {
    kvc_call c;
    store::QueueUse queue;
    KVC_TRY(read_queued(c, queue, call, e));
    Queues &queues = queue.store().queues();
    Task *task;
    KVC_TRY(queues.admit(&task, queue.queue(), c, Call::operation, e));
    const kvc_status status = caught(e, [&]() -> kvc_status {
      try {
        auto *work = new (task->copies.take(sizeof(Queued<Call>), alignof(Queued<Call>))) Queued<Call>(queue.store(), trace_ids(&c));
        task->work = work;
        Intake in(call, queue.store(), *task);
        KVC_TRY(work->call.read(in, e, args...));
      } catch (const store::DescriptionFull &full) {
        return fail_description(full, e);
      }
      return queues.push(*task, (c.flags & KVC_CALL_MORE) != 0, e);
    });
    if (status != KVC_OK) queues.give_up(*task);
    return status;
  });
}

/// Runs a call that was refused for want of room until there is some, or its time is over.  KVC_OPEN_WAIT.
template <typename Call>
[[gnu::noinline, gnu::cold]] kvc_status run_when_room(Call &c, const Intake &in, const kvc_call *call, kvc_result &result, Error &error) {
  Queues::RoomWait room(in.store().queues(), timeout_of(call));
  const uint32_t size = result.size;
  kvc_status status = KVC_ERR_FULL;
  while (status == KVC_ERR_FULL && !error.never && room.again()) {
    begin_result(result, size, Call::operation, call);
    status = c.run(result, error);
  }
  return status;
}

template <typename Call>
[[gnu::always_inline]] inline kvc_status run_blocking(Call &c, const Intake &in, const kvc_call *call, kvc_result &result, Error &error) {
  const kvc_status status = c.run(result, error);
  if (status == KVC_ERR_FULL && !error.never && in.store().queues().waits()) [[unlikely]] return run_when_room(c, in, call, result, error);
  return status;
}

/// The same as a span of the store's trace.
template <typename Call>
[[gnu::noinline, gnu::cold]] kvc_status run_traced(Call &c, const Intake &in, const kvc_call *call, kvc_result &result, Error &error) {
  const store::Trace::WithIds with(trace_ids(call));
  const uint64_t begin_ns = store::Trace::now_ns();
  const kvc_status status = run_blocking(c, in, call, result, error);
  in.store().trace().add(store::operation_name(Call::operation), begin_ns, status, result.bytes);
  return status;
}

template <typename Call, typename... Args>
[[gnu::always_inline]] inline kvc_status run_here(const kvc_call *call, kvc_result &result, Error &error, Args... args) {
  KVC_TRY(check_call(call, error));
  Call c;
  Intake in(call);
  KVC_TRY(c.read(in, error, args...));
  return in.store().trace().on() ? run_traced(c, in, call, result, error) : run_blocking(c, in, call, result, error);
}

template <typename Call, typename... Args>
kvc_status call_plain(const kvc_call *call, kvc_error *error, Args... args) noexcept {
  if (is_queued(call)) [[unlikely]] return enqueue<Call>(call, error, args...);
  return guard(error, [&](Error &e) {
    kvc_result nobody_sees;  // written, never read
    nobody_sees.size = sizeof nobody_sees;
    return run_here<Call>(call, nobody_sees, e, args...);
  });
}

template <typename Call, typename... Args>
kvc_status call_with_result(kvc_result *result, const kvc_call *call, kvc_error *error, Args... args) noexcept {
  if (is_queued(call)) [[unlikely]] return enqueue<Call>(call, error, args...);
  return guard(error, [&](Error &e) {
    return with_result(result, Call::operation, call, e, [&](kvc_result &r) { return run_here<Call>(call, r, e, args...); });
  });
}

}  // namespace kvc::api
