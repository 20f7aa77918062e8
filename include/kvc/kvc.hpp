/* kvc/kvc.hpp - the same calls for C++17: handles that release themselves, failures as exceptions.  Header only, nothing behind it but kvc.h,
 * whose comments hold for every member of the same name; what differs is said here.
 *
 *     kvc::Store store("mem:");
 *     kvc::Scope scope = store.scope(options);
 *     kvc::Seq seq = scope.match(tokens.data(), tokens.size());
 *     seq.append(rest, rest_count, &rows, 1);
 *
 * Handles   move, and release on destruction, where nobody hears of a failure: release() says it.  Each may outlive the store it is of; what is
 *           called on it then is KVC_ERR_STALE.  A store is not closed while its views and regions live: let them go first.  get() lends the C handle,
 *           give() hands it over, and the constructor takes one over: that of a result, say.
 * Failures  throw kvc::Error.  A constructor of a handle that failed has made nothing.
 * Structs   are those of C: kvc::init<kvc_rows>() is one that KVC_INIT went over.  What append and put are given is only read: memory that is const
 *           takes a const_cast where a member is a void *.
 * Queued    calls (kvc_call.queue) return as soon as they are started: handles come back empty and results as KVC_INIT left them, the real ones are
 *           drained.  What the call borrows as lent stays lent until then.
 * Threads   as in C: const members beside each other, the others alone on their handle. */
#ifndef KVC_KVC_HPP
#define KVC_KVC_HPP

#include <kvc/kvc.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvc {

/** A struct of the library, zeroed and sized. */
template <typename T>
T init() noexcept {
  T out;
  KVC_INIT(&out);
  return out;
}

/** Why a call failed: what() is the one-line message. */
class Error : public std::runtime_error {
 public:
  explicit Error(const kvc_error &error, uint64_t done_of = 0)
      : std::runtime_error(error.message), status(error.status), retry(error.retry), system_error(error.system_error), done(done_of) {}
  const char *name() const noexcept { return kvc_status_name(status); }

  const kvc_status status;
  const uint32_t retry;        /**< KVC_RETRY_* */
  const int32_t system_error;  /**< errno, or 0 */
  const uint64_t done;         /**< kvc_result.done of a call that has one: the usable part */
};

namespace detail {

/** Takes the error of one call, and throws it. */
class Check {
 public:
  Check() noexcept { KVC_INIT(&error_); }
  operator kvc_error *() noexcept { return &error_; }
  void operator()(kvc_status status, uint64_t done = 0) const {
    if (status != KVC_OK) throw Error(error_, done);
  }

 private:
  kvc_error error_;
};

template <typename T, kvc_status (*Release)(T *, kvc_error *)>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(T *given) noexcept : handle_(given) {}
  Handle(Handle &&from) noexcept : handle_(from.give()) {}
  Handle &operator=(Handle &&from) noexcept {
    if (this != &from) {
      (void)Release(handle_, nullptr);
      handle_ = from.give();
    }
    return *this;
  }
  ~Handle() { (void)Release(handle_, nullptr); }

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  T *get() const noexcept { return handle_; }
  T *give() noexcept { return std::exchange(handle_, nullptr); }
  /** Ends it; after KVC_ERR_BUSY it is there still. */
  void release() {
    Check check;
    const kvc_status status = Release(handle_, check);
    if (status != KVC_ERR_BUSY) handle_ = nullptr;
    check(status);
  }

 protected:
  T *handle_ = nullptr;
};

inline bool queued(const kvc_call *call) noexcept { return call && call->queue; }

/** Runs of(result, error), which is a call with a result: none where it is queued. */
template <typename Call>
kvc_result result_of(const kvc_call *call, Call &&of) {
  Check check;
  auto result = init<kvc_result>();
  const kvc_status status = of(queued(call) ? nullptr : &result, check);
  check(status, result.done);
  return result;
}

}  // namespace detail

class Lease : public detail::Handle<kvc_lease, kvc_lease_release> {
 public:
  using Handle::Handle;
  void renew(uint64_t lease_ms = 0) {
    detail::Check check;
    check(kvc_lease_renew(handle_, lease_ms, check));
  }
};

class Region : public detail::Handle<kvc_region, kvc_region_release> {
 public:
  using Handle::Handle;
};

/** A page in place, for as long as the view lives. */
class View : public detail::Handle<kvc_view, kvc_view_release> {
 public:
  View() noexcept : rows_(init<kvc_rows>()) {}
  View(kvc_view *given, const kvc_rows &rows) noexcept : Handle(given), rows_(rows) {}
  const kvc_rows &rows() const noexcept { return rows_; }

 private:
  kvc_rows rows_;
};

class Seq : public detail::Handle<kvc_seq, kvc_seq_release> {
 public:
  using Handle::Handle;

  void append(const int32_t *tokens, size_t token_count, const kvc_rows *rows, size_t row_count, const kvc_call *call = nullptr) {
    detail::Check check;
    check(kvc_append(handle_, tokens, token_count, rows, row_count, call, check));
  }
  kvc_result gather(const kvc_rows *rows, size_t row_count, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_gather(result, handle_, rows, row_count, call, error); });
  }
  kvc_result prefetch(const kvc_rows *rows, size_t row_count, uint32_t tier, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_seq_prefetch(result, handle_, rows, row_count, tier, call, error); });
  }
  void identify(const kvc_extra *extras, size_t extra_count) {
    detail::Check check;
    check(kvc_seq_identify(handle_, extras, extra_count, check));
  }
  Seq fork(uint64_t tokens = KVC_ALL) const {
    detail::Check check;
    kvc_seq *out = nullptr;
    check(kvc_seq_fork(&out, handle_, tokens, check));
    return Seq(out);
  }
  void truncate(uint64_t tokens) {
    detail::Check check;
    check(kvc_seq_truncate(handle_, tokens, check));
  }
  void compact(const uint64_t *positions, size_t position_count) {
    detail::Check check;
    check(kvc_seq_compact(handle_, positions, position_count, check));
  }
  /** The i-th of them goes on as what source[i] was. */
  static void reorder(const std::vector<Seq> &seqs, const std::vector<uint32_t> &source) {
    if (seqs.size() != source.size()) throw std::invalid_argument("reorder: as many sources as sequences are needed");
    std::vector<kvc_seq *> handles;
    for (const Seq &seq : seqs) handles.push_back(seq.get());
    detail::Check check;
    check(kvc_seq_reorder(handles.data(), source.data(), handles.size(), check));
  }
  void hint(const kvc_hint &hint) {
    detail::Check check;
    check(kvc_seq_hint(handle_, &hint, check));
  }
  Lease lease(uint64_t token_begin = 0, uint64_t token_count = KVC_ALL, uint64_t lease_ms = 0, const kvc_call *call = nullptr) const {
    detail::Check check;
    kvc_lease *out = nullptr;
    check(kvc_seq_lease(detail::queued(call) ? nullptr : &out, handle_, token_begin, token_count, lease_ms, call, check));
    return Lease(out);
  }
  View view(uint32_t layer, uint64_t token, uint32_t flags = 0) const {
    detail::Check check;
    kvc_view *out = nullptr;
    auto rows = init<kvc_rows>();
    check(kvc_view_acquire(&out, &rows, handle_, layer, token, flags, check));
    return View(out, rows);
  }
  void publish(const std::string &name, uint64_t lease_ms = 0, const kvc_call *call = nullptr) {
    detail::Check check;
    check(kvc_seq_publish(handle_, name.data(), name.size(), lease_ms, call, check));
  }
  void save(const std::string &path, const kvc_call *call = nullptr) const {
    detail::Check check;
    check(kvc_seq_save(handle_, path.c_str(), call, check));
  }
  kvc_seq_info info() const {
    detail::Check check;
    auto out = init<kvc_seq_info>();
    check(kvc_seq_get_info(&out, handle_, check));
    return out;
  }
};

class Scope : public detail::Handle<kvc_scope, kvc_scope_release> {
 public:
  using Handle::Handle;

  Seq create(const kvc_seq_options *options = nullptr) const {
    detail::Check check;
    kvc_seq *out = nullptr;
    check(kvc_seq_create(&out, handle_, options, check));
    return Seq(out);
  }
  /** `info`: what was found, if it is wanted.  With KVC_SEQ_PEEK the sequence comes back empty. */
  Seq match(const int32_t *tokens, size_t token_count, kvc_match_info *info = nullptr, const kvc_seq_options *options = nullptr, const kvc_call *call = nullptr) const {
    detail::Check check;
    kvc_seq *out = nullptr;
    const bool peeks = options && (options->flags & KVC_SEQ_PEEK);
    check(kvc_match(peeks || detail::queued(call) ? nullptr : &out, info, handle_, tokens, token_count, options, call, check));
    return Seq(out);
  }
  Seq attach(const std::string &name, const kvc_seq_options *options = nullptr, const kvc_call *call = nullptr) const {
    detail::Check check;
    kvc_seq *out = nullptr;
    check(kvc_seq_attach(detail::queued(call) ? nullptr : &out, handle_, name.data(), name.size(), options, call, check));
    return Seq(out);
  }
  void withdraw(const std::string &name) const {
    detail::Check check;
    check(kvc_seq_withdraw(handle_, name.data(), name.size(), check));
  }
  Seq restore(const std::string &path, const kvc_seq_options *options = nullptr, const kvc_call *call = nullptr) const {
    detail::Check check;
    kvc_seq *out = nullptr;
    check(kvc_seq_restore(detail::queued(call) ? nullptr : &out, handle_, path.c_str(), options, call, check));
    return Seq(out);
  }
  kvc_result put(kvc_object *objects, size_t object_count, const kvc_object_options *options = nullptr, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_object_put(result, handle_, objects, object_count, options, call, error); });
  }
  /** An item that is absent makes it throw, as any that is not OK: its own status is in it. */
  kvc_result get_objects(kvc_object *objects, size_t object_count, const kvc_object_options *options = nullptr, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_object_get(result, handle_, objects, object_count, options, call, error); });
  }
  kvc_result exists(kvc_object *objects, size_t object_count, const kvc_object_options *options = nullptr, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_object_exists(result, handle_, objects, object_count, options, call, error); });
  }
  kvc_result remove(kvc_object *objects, size_t object_count, const kvc_call *call = nullptr) const {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_object_delete(result, handle_, objects, object_count, call, error); });
  }
  /** Entries in key order behind `after`, `count` at most. */
  std::vector<kvc_object_entry> list(const std::string &after = std::string(), size_t count = 1024) const {
    detail::Check check;
    std::vector<kvc_object_entry> out(count);
    size_t found = 0;
    check(kvc_object_list(out.data(), out.size(), &found, handle_, after.empty() ? nullptr : after.data(), after.size(), nullptr, check));
    out.resize(found);
    return out;
  }
  kvc_result clear(const kvc_call *call = nullptr) {
    return detail::result_of(call, [&](kvc_result *result, kvc_error *error) { return kvc_scope_clear(result, handle_, call, error); });
  }
  kvc_scope_info info() const {
    detail::Check check;
    auto out = init<kvc_scope_info>();
    check(kvc_scope_get_info(&out, handle_, check));
    return out;
  }
};

class Queue : public detail::Handle<kvc_queue, kvc_queue_release> {
 public:
  using Handle::Handle;

  /** A call that goes through this queue. */
  kvc_call call(uint64_t user, uint32_t flags = 0, uint64_t timeout_us = 0) const noexcept {
    auto out = init<kvc_call>();
    out.queue = handle_, out.user = user, out.flags = flags, out.timeout_us = timeout_us;
    return out;
  }
  int fd() const {
    detail::Check check;
    int out = -1;
    check(kvc_queue_fd(&out, handle_, check));
    return out;
  }
  void submit() {
    detail::Check check;
    check(kvc_queue_submit(handle_, check));
  }
  void cancel(uint64_t user) {
    detail::Check check;
    check(kvc_queue_cancel(handle_, user, check));
  }
  /** What ended, `count` at most; waits for the first.  Sequences and leases in it are the caller's: kvc::Seq(result.seq) takes one over. */
  std::vector<kvc_result> drain(uint64_t timeout_us = 0, size_t count = 64) {
    detail::Check check;
    std::vector<kvc_result> out(count, init<kvc_result>());
    size_t found = 0;
    check(kvc_queue_drain(out.data(), out.size(), &found, handle_, timeout_us, check));
    out.resize(found);
    return out;
  }
  /** `scope` null: of all. */
  void watch(const Scope *scope, uint32_t mask) {
    detail::Check check;
    check(kvc_event_watch(handle_, scope ? scope->get() : nullptr, mask, check));
  }
  /** Their tokens are lent until the next call of it. */
  std::vector<kvc_event> events(size_t count = 64) {
    detail::Check check;
    std::vector<kvc_event> out(count, init<kvc_event>());
    size_t found = 0;
    check(kvc_event_drain(out.data(), out.size(), &found, handle_, check));
    out.resize(found);
    return out;
  }
};

class Store : public detail::Handle<kvc_store, kvc_close> {
 public:
  using Handle::Handle;
  explicit Store(const std::string &uri, const kvc_store_options *options = nullptr) {
    detail::Check check;
    check(kvc_open(&handle_, uri.c_str(), options, check));
  }

  Scope scope(const kvc_scope_options &options) const {
    detail::Check check;
    kvc_scope *out = nullptr;
    check(kvc_scope_create(&out, handle_, &options, check));
    return Scope(out);
  }
  Queue queue(const kvc_queue_options *options = nullptr) const {
    detail::Check check;
    kvc_queue *out = nullptr;
    check(kvc_queue_create(&out, handle_, options, check));
    return Queue(out);
  }
  Region region(void *data, size_t data_size, uint32_t memory = KVC_MEMORY_HOST, int32_t device = 0) const {
    detail::Check check;
    kvc_region *out = nullptr;
    check(kvc_region_register(&out, handle_, data, data_size, memory, device, check));
    return Region(out);
  }
  /** Of a host-driven store.  True: there is more to do. */
  bool step(uint64_t budget_us) {
    detail::Check check;
    uint32_t more = 0;
    check(kvc_store_step(&more, handle_, budget_us, check));
    return more != 0;
  }
  kvc_store_info info() const {
    detail::Check check;
    auto out = init<kvc_store_info>();
    check(kvc_store_get_info(&out, handle_, check));
    return out;
  }
  /** Reads and checks everything.  A failure's text names the first that is bad. */
  kvc_verify_info verify() {
    detail::Check check;
    auto out = init<kvc_verify_info>();
    check(kvc_store_verify(&out, handle_, nullptr, check));
    return out;
  }
  /** The same, filled until the result was drained. */
  void verify(kvc_verify_info &info, const kvc_call &call) {
    detail::Check check;
    check(kvc_store_verify(&info, handle_, &call, check));
  }
  kvc_metrics metrics() const {
    detail::Check check;
    auto out = init<kvc_metrics>();
    check(kvc_metrics_read(&out, handle_, check));
    return out;
  }
  /** For Prometheus. */
  std::string metrics_text() const {
    for (std::string out(16384, '\0');;) {
      detail::Check check;
      size_t size = 0;
      const kvc_status status = kvc_metrics_text(&out[0], out.size(), &size, handle_, check);
      if (status != KVC_ERR_RANGE) {
        check(status);
        out.resize(size - 1);
        return out;
      }
      out.resize(size + size / 8);
    }
  }
  /** To a file that Perfetto reads. */
  void record_trace(const std::string &path) {
    detail::Check check;
    check(kvc_trace_record(handle_, path.c_str(), check));
  }
  void stop_trace() {
    detail::Check check;
    check(kvc_trace_record(handle_, nullptr, check));
  }
};

/** Of the library that is loaded: major << 16 | minor << 8 | patch. */
inline uint32_t version() noexcept { return kvc_version(); }

/** KVC_FEATURE_* bits of this build. */
inline uint64_t features() noexcept { return kvc_features(); }

/** What follows from a shape, and whether it can be. */
inline kvc_shape_info check_shape(const kvc_shape &shape) {
  detail::Check check;
  auto out = init<kvc_shape_info>();
  check(kvc_shape_check(&out, &shape, check));
  return out;
}

}  // namespace kvc
#endif
