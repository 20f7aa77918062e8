#pragma once
#include <atomic>

#include "base/clock.h"

namespace kvc_test {

/// Another clock, which stands still, goes back, or leaps when it is told to.
class LyingClock final : public kvc::base::Clock {
 public:
  explicit LyingClock(const kvc::base::Clock &clock) : clock_(clock) {}
  uint64_t now_ns() const override { return stands_ ? still_ns_.load() : clock_.now_ns() + ahead_ns_; }
  void stand_still() { still_ns_ = now_ns(), stands_ = true; }
  void go_on() { stands_ = false; }
  /// By how much it is ahead of the other; modulo 2^64, so that it can be behind.
  void set_ahead_ns(uint64_t ns) { ahead_ns_ = ns; }
  void set_back_ms(uint64_t ms) { ahead_ns_ = 0 - ms * 1000000u; }

 private:
  const kvc::base::Clock &clock_;
  std::atomic<bool> stands_{false};
  std::atomic<uint64_t> still_ns_{0}, ahead_ns_{0};
};

}  // namespace kvc_test
