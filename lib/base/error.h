#pragma once
#include <cstddef>
#include <cstdint>

#include "kvc/error.h"

namespace kvc::base {

/// Why something failed.  Lives on the stack of the API call, is passed down by reference and copied into the caller's kvc_error once,
/// so that no status is lost between layers and nothing is thread-local.
struct Error {
  Error() { message[0] = '\0'; }  // most never say more: calls of a few hundred ns make several
  kvc_status status = KVC_OK;
  int32_t system_error = 0;
  bool never = false;  // the same call will fail again, whatever else the status may mean
  char message[240];
};

/// Fills `error` and returns `status`, so that a failure is one line: return fail(error, KVC_ERR_RANGE, "layer %u: the shape has %u", ...).
[[nodiscard]] kvc_status fail(Error &error, kvc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/// The same for a failure that waiting and releasing cannot mend, of a status that says they might.
[[nodiscard]] kvc_status fail_never(Error &error, kvc_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/// The same for a failed system call; appends the text of `errno_value`.
[[nodiscard]] kvc_status fail_system(Error &error, kvc_status status, int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/// KVC_RETRY_* of a status; total.
uint32_t retry_of(kvc_status status);
/// KVC_RETRY_* of a failure.
inline uint32_t retry_of(kvc_status status, const Error &error) { return error.never ? static_cast<uint32_t>(KVC_RETRY_NEVER) : retry_of(status); }
/// How much of a text fits in front of the terminator of a field that has so many bytes, 1 at least; no character is cut.
size_t fitting_bytes(const char *text, size_t field_bytes);
/// "KVC_ERR_FULL"; static, total ("KVC_STATUS_UNKNOWN" for what is none of ours).
const char *status_name(kvc_status status);

}  // namespace kvc::base

/// Returns from the caller when `expression` is not KVC_OK.
#define KVC_TRY(expression)                                        \
  do {                                                             \
    if (const kvc_status kvc_try_ = (expression); kvc_try_ != KVC_OK) return kvc_try_; \
  } while (0)
