#pragma once
#include <array>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "kvc/store.h"

namespace kvc::store {

/// Lines for the host's sink.  Of one cause one line in ten seconds; the next says how many there were between.  Never called under the store's lock.
class Log {
 public:
  enum class Cause : uint32_t { store, checksum, full, quota, lapsed, events, trace, count };
  static constexpr uint32_t error = 1, warning = 2, information = 3;
  static constexpr uint64_t quiet_ns = 10000000000u;

  Log(const kvc_store_options &options, const base::Clock &clock)
      : sink_(options.log), context_(options.log_context), level_max_(options.log_level ? options.log_level : warning), clock_(clock) {}
  /// Is anybody listening?
  bool takes(uint32_t level) const { return sink_ && level <= level_max_; }
  void line(uint32_t level, Cause cause, const char *format, ...) __attribute__((format(printf, 4, 5)));
  /// What was held back.
  void end();

 private:
  struct Held {
    uint64_t quiet_until_ns = 0, count = 0;
    uint32_t level = 0;
  };
  const kvc_log_fn sink_;
  void *const context_;
  const uint32_t level_max_;
  const base::Clock &clock_;
  std::mutex mutex_;
  std::array<Held, static_cast<size_t>(Cause::count)> held_{};
};

}  // namespace kvc::store
