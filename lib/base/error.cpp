#include "base/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace kvc::base {
namespace {

constexpr size_t kMessageBytes = sizeof(Error::message);
static_assert(kMessageBytes == 240, "kvc_error.message is part of the ABI");

// A message is read by a person in a log: room for what will be cut anyway is not needed beyond a long path or two.
constexpr size_t kFormattedBytes = 1024;

/// Length of the well-formed UTF-8 sequence at `text`, 0 when there is none (overlong, surrogate, truncated, stray).
size_t sequence_bytes(const unsigned char *text, size_t bytes) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > bytes) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = text[1];
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

/// Everything a terminal or a log reader may take for the end of a line or for a command: C0, DEL, C1, U+2028, U+2029.
bool breaks_the_line(const unsigned char *text, size_t length) {
  if (length == 1) return text[0] < 0x20 || text[0] == 0x7F;
  if (length == 2) return text[0] == 0xC2 && text[1] < 0xA0;
  return length == 3 && text[0] == 0xE2 && text[1] == 0x80 && (text[2] == 0xA8 || text[2] == 0xA9);
}

/// Appends `from` to the `used` bytes of `to` as one line of valid UTF-8 that ends, terminator included, within `to_bytes`.
size_t append_line(char *to, size_t used, size_t to_bytes, const char *from) {
  const auto *text = reinterpret_cast<const unsigned char *>(from);
  size_t left = strlen(from);
  while (left > 0) {
    const size_t length = sequence_bytes(text, left);
    const bool clean = length > 0 && !breaks_the_line(text, length);
    const size_t step = length > 0 ? length : 1;
    const size_t written = clean ? length : 1;
    if (used + written + 1 > to_bytes) break;
    if (clean) {
      memcpy(to + used, text, length);
    } else {
      to[used] = length == 1 ? ' ' : '?';
    }
    used += written;
    text += step;
    left -= step;
  }
  to[used] = '\0';
  return used;
}

/// `formatted` may be built from error.message itself, so it is complete before the error is touched.
kvc_status fill(Error &error, kvc_status status, int errno_value, const char *formatted, const char *suffix) {
  KVC_CHECK(status != KVC_OK);
  error.status = status;
  error.system_error = errno_value;
  error.never = false;
  const size_t used = append_line(error.message, 0, kMessageBytes - strlen(suffix), formatted);
  append_line(error.message, used, kMessageBytes, suffix);
  return status;
}

void format_or_literal(char (&out)[kFormattedBytes], const char *format, va_list arguments) {
  if (vsnprintf(out, sizeof out, format, arguments) < 0) snprintf(out, sizeof out, "%s", format);
}

}  // namespace

kvc_status fail(Error &error, kvc_status status, const char *format, ...) {
  char formatted[kFormattedBytes];
  va_list arguments;
  va_start(arguments, format);
  format_or_literal(formatted, format, arguments);
  va_end(arguments);
  return fill(error, status, 0, formatted, "");
}

kvc_status fail_never(Error &error, kvc_status status, const char *format, ...) {
  char formatted[kFormattedBytes];
  va_list arguments;
  va_start(arguments, format);
  format_or_literal(formatted, format, arguments);
  va_end(arguments);
  fill(error, status, 0, formatted, "");
  error.never = true;
  return status;
}

kvc_status fail_system(Error &error, kvc_status status, int errno_value, const char *format, ...) {
  char formatted[kFormattedBytes];
  va_list arguments;
  va_start(arguments, format);
  format_or_literal(formatted, format, arguments);
  va_end(arguments);
  char buffer[80];
  char suffix[100];
  snprintf(suffix, sizeof suffix, ": %.80s", strerror_r(errno_value, buffer, sizeof buffer));
  return fill(error, status, errno_value, formatted, suffix);
}

uint32_t retry_of(kvc_status status) {
  switch (status) {
    case KVC_ERR_NOT_FOUND:
    case KVC_ERR_GONE:
    case KVC_ERR_EXISTS:
    case KVC_ERR_CORRUPT:
    case KVC_ERR_NO_SNAPSHOT:
      return KVC_RETRY_RECOMPUTE;
    case KVC_ERR_FULL:
    case KVC_ERR_NO_MEMORY:
    case KVC_ERR_BUSY:
    case KVC_ERR_READ_ONLY:
    case KVC_ERR_UNAVAILABLE:
    case KVC_ERR_TIMEOUT:
    case KVC_ERR_IO:
    case KVC_ERR_DEVICE:
      return KVC_RETRY_LATER;
    case KVC_ERR_CANCELLED:
      return KVC_RETRY_NOW;
    default:
      return KVC_RETRY_NEVER;
  }
}

size_t fitting_bytes(const char *text, size_t field_bytes) {
  size_t bytes = strnlen(text, field_bytes);
  if (bytes < field_bytes) return bytes;
  do bytes--;
  while (bytes && (text[bytes] & 0xC0) == 0x80);
  return bytes;
}

const char *status_name(kvc_status status) {
  switch (status) {
#define KVC_NAME(name) \
  case name:           \
    return #name;
    KVC_NAME(KVC_OK)
    KVC_NAME(KVC_ERR_ARGUMENT)
    KVC_NAME(KVC_ERR_RANGE)
    KVC_NAME(KVC_ERR_SHAPE)
    KVC_NAME(KVC_ERR_TOO_NEW)
    KVC_NAME(KVC_ERR_MISUSE)
    KVC_NAME(KVC_ERR_STALE)
    KVC_NAME(KVC_ERR_FORKED)
    KVC_NAME(KVC_ERR_NOT_FOUND)
    KVC_NAME(KVC_ERR_GONE)
    KVC_NAME(KVC_ERR_EXISTS)
    KVC_NAME(KVC_ERR_CORRUPT)
    KVC_NAME(KVC_ERR_NO_SNAPSHOT)
    KVC_NAME(KVC_ERR_FULL)
    KVC_NAME(KVC_ERR_NO_MEMORY)
    KVC_NAME(KVC_ERR_BUSY)
    KVC_NAME(KVC_ERR_READ_ONLY)
    KVC_NAME(KVC_ERR_UNAVAILABLE)
    KVC_NAME(KVC_ERR_TIMEOUT)
    KVC_NAME(KVC_ERR_CANCELLED)
    KVC_NAME(KVC_ERR_DENIED)
    KVC_NAME(KVC_ERR_UNSUPPORTED)
    KVC_NAME(KVC_ERR_VERSION)
    KVC_NAME(KVC_ERR_IO)
    KVC_NAME(KVC_ERR_DEVICE)
    KVC_NAME(KVC_ERR_INTERNAL)
#undef KVC_NAME
    default:
      return "KVC_STATUS_UNKNOWN";
  }
}

}  // namespace kvc::base
