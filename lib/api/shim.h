#pragma once
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/handle.h"
#include "kvc/kvc.h"
#include "store/scope_use.h"
#include "store/store.h"

/// What every call of the C surface does around the store: structs of any age in and out, handles to objects, one catch-all, the error
/// struct filled once.
namespace kvc::api {

using base::Error;
using base::fail;
using base::HandleKind;
using base::Token;
using store::ScopeUse;
using store::Store;

/// No struct of any header comes near this: a size beyond it is memory that was never initialised.
constexpr uint32_t struct_size_max = 4096;

[[nodiscard]] inline kvc_status check_size(uint32_t size, const char *name, Error &error) {
  if (size >= sizeof(uint32_t) * 2 && size <= struct_size_max) return KVC_OK;
  return fail(error, KVC_ERR_ARGUMENT, "%s.size %u: KVC_INIT the struct", name, size);
}

/// Copies an input struct of the caller's size; what it does not know is zero, what we do not know must be.
template <typename T>
[[nodiscard]] kvc_status read_struct(T &out, const T *in, uint32_t size, const char *name, Error &error) {
  KVC_TRY(check_size(size, name, error));
  out = T{};
  std::memcpy(static_cast<void *>(&out), in, size < sizeof(T) ? size : sizeof(T));
  const auto *tail = reinterpret_cast<const unsigned char *>(in);
  for (uint32_t i = sizeof(T); i < size; i++)
    if (tail[i]) return fail(error, KVC_ERR_TOO_NEW, "%s: byte %u of %u is set, this library knows %zu", name, i, size, sizeof(T));
  out.size = sizeof(T);
  return KVC_OK;
}

/// Options may be NULL: all defaults.
template <typename T>
[[nodiscard]] kvc_status read_options(T &out, const T *in, const char *name, Error &error) {
  out = T{};
  return in ? read_struct(out, in, in->size, name, error) : KVC_OK;
}

/// An output struct: ours is complete, the caller gets at most his size.
template <typename T>
class Output {
 public:
  Output(T *user, const char *name) : user_(user), name_(name) {}
  [[nodiscard]] kvc_status check(Error &error) const {
    return user_ ? check_size(user_->size, name_, error) : KVC_OK;
  }
  T &value() { return value_; }
  void write() {
    if (!user_) return;
    const uint32_t size = user_->size;
    value_.size = size;
    std::memcpy(static_cast<void *>(user_), &value_, size < sizeof(T) ? size : sizeof(T));
  }

 private:
  T *user_;
  const char *name_;
  T value_{};
};

void write_error(kvc_error *user, const Error &error, kvc_status status);

/// Runs a body; what it throws becomes a status.
template <typename F>
kvc_status caught(Error &error, F &&body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(error, KVC_ERR_NO_MEMORY, "the system refused memory");
  } catch (const std::exception &e) {
    return fail(error, KVC_ERR_INTERNAL, "%s", e.what());
  } catch (...) {
    return fail(error, KVC_ERR_INTERNAL, "an exception of an unknown kind");
  }
}

/// Runs the body of a call: nothing is thrown across the C boundary, and the error is written once.
template <typename F>
kvc_status guard(kvc_error *user, F &&body) noexcept {
  Error error;
  const kvc_status status = caught(error, [&] { return body(error); });
  if (status != KVC_OK) write_error(user, error, status);
  return status;
}

/// A call that is declared and not built yet.
inline kvc_status unsupported(kvc_error *user, const char *name) noexcept {
  return guard(user, [&](Error &error) { return fail(error, KVC_ERR_UNSUPPORTED, "%s is not built yet", name); });
}

template <typename Handle>
Token token_of(const Handle *handle) {
  return base::token_unpack(reinterpret_cast<uint64_t>(handle));
}

[[nodiscard]] kvc_status store_of(Store **out, const kvc_store *handle, Error &error);

/// Around the release of a handle by the store it is of; NULL is nothing to do.
template <auto release, typename Handle>
kvc_status release_handle(Handle *handle, HandleKind kind, kvc_error *error) noexcept {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!handle) return KVC_OK;
    void *store;
    KVC_TRY(base::store_of(&store, token_of(handle), kind, e));
    return (static_cast<Store *>(store)->*release)(token_of(handle), e);
  });
}

/// Around a call that fills a struct: `fill(value, error)`.
template <typename Info, typename F>
kvc_status get_info(Info *info, const char *name, kvc_error *error, F &&fill) noexcept {
  return guard(error, [&](Error &e) -> kvc_status {
    if (!info) return fail(e, KVC_ERR_ARGUMENT, "%s is NULL", name);
    Output<Info> out(info, name);
    KVC_TRY(out.check(e));
    KVC_TRY(fill(out.value(), e));
    out.write();
    return KVC_OK;
  });
}

inline bool is_queued(const kvc_call *call) { return call && call->size >= offsetof(kvc_call, queue) + sizeof call->queue && call->queue; }
inline uint64_t timeout_of(const kvc_call *call) { return call && call->size >= offsetof(kvc_call, timeout_us) + sizeof call->timeout_us ? call->timeout_us : 0; }
[[nodiscard]] kvc_status check_call_flags(const kvc_call &call, Error &error);
/// The kvc_call of a call that blocks.
[[nodiscard]] kvc_status check_call(const kvc_call *call, Error &error);

void begin_result(kvc_result &result, uint32_t size, uint32_t operation, const kvc_call *call);
using store::end_result;

/// Runs `body(result)` with the caller's own struct where it is whole: copying ours there would read back what was stored a moment ago, and so
/// wait until the rows or values of the call have reached memory.
template <typename F>
kvc_status with_result(kvc_result *user, uint32_t operation, const kvc_call *call, Error &error, F &&body) {
  if (user) KVC_TRY(check_size(user->size, "result", error));
  const bool whole = user && user->size >= sizeof(kvc_result);
  kvc_result ours;
  kvc_result &result = whole ? *user : ours;
  begin_result(result, user ? user->size : sizeof ours, operation, call);
  const auto begin = user ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  const kvc_status status = caught(error, [&] { return body(result); });
  if (user) result.elapsed_us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count());
  end_result(result, status, error);
  if (user && !whole) store::give_result(*user, ours, user->size);
  return status;
}

/// A sequence in use by a call: beside others (const) or alone.  Use slides its lease; one that lapsed is taken up again for what is left.
class SeqUse {
 public:
  enum class Mode { shared, exclusive, look, queued };  // look: shared, and no use; queued: the task sees to it
  ~SeqUse();
  /// Waits, up to the timeout of `call` (nullptr: the store's), for queued calls on the sequence.
  [[nodiscard]] kvc_status enter(const kvc_seq *handle, Mode mode, Error &error, const kvc_call *call = nullptr);
  /// The same at once: BUSY while there are any.
  [[nodiscard]] kvc_status enter_now(const kvc_seq *handle, Mode mode, Error &error);
  /// For a queued call: only whose it is.
  [[nodiscard]] kvc_status name(const kvc_seq *handle, Error &error);
  void set_queued(store::Sequence &seq) {
    mode_ = Mode::queued;
    seq_ = &seq;
  }
  Store &store() { return *store_; }
  store::Sequence &seq() { return *seq_; }

 private:
  Token token_;
  Mode mode_ = Mode::shared;
  Store *store_ = nullptr;
  store::Sequence *seq_ = nullptr;
};

}  // namespace kvc::api
