#pragma once

namespace kvc::base {
/// Prints the broken invariant and ends the process: a bug of ours, never the caller's mistake.
[[noreturn]] void check_failed(const char *expression, const char *file, int line);
}  // namespace kvc::base

/// An invariant of kvc itself.  Stays on in release builds: it is cheap, and a wrong byte is worse than a stop.
#define KVC_CHECK(expression) \
  (__builtin_expect(static_cast<bool>(expression), 1) ? static_cast<void>(0) : ::kvc::base::check_failed(#expression, __FILE__, __LINE__))
