#include "store/log.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace kvc::store {

void Log::line(uint32_t level, Cause cause, const char *format, ...) {
  if (!takes(level)) return;
  uint64_t between = 0;
  if (cause != Cause::store) {
    std::lock_guard lock(mutex_);
    Held &held = held_[static_cast<size_t>(cause)];
    const uint64_t now = clock_.now_ns();
    if (now < held.quiet_until_ns && held.quiet_until_ns - now <= quiet_ns) return void(held.count++);  // longer: the clock went back
    held.quiet_until_ns = now + quiet_ns;
    held.level = level;
    between = std::exchange(held.count, 0);
  }
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  int n = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (n < 0) return;
  n = n < static_cast<int>(sizeof text) ? n : static_cast<int>(sizeof text) - 1;
  if (between) std::snprintf(text + n, sizeof text - static_cast<size_t>(n), " (and %llu like it since the last line)", static_cast<unsigned long long>(between));
  for (char *c = text; *c; c++)
    if (static_cast<unsigned char>(*c) < 32) *c = ' ';
  sink_(level, text, context_);
}

void Log::end() {
  static constexpr const char *names[] = {"", "checksum failures", "refusals for want of room", "refusals of a quota", "lapses", "losses of events", "failures of a trace"};
  for (size_t cause = 0; cause < held_.size(); cause++) {
    const Held held = std::exchange(held_[cause], {});
    if (!held.count) continue;
    char text[120];
    std::snprintf(text, sizeof text, "%llu more %s since the last line", static_cast<unsigned long long>(held.count), names[cause]);
    if (takes(held.level)) sink_(held.level, text, context_);
  }
}

}  // namespace kvc::store
