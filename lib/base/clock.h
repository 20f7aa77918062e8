#pragma once
#include <cstdint>

#include "kvc/types.h"

namespace kvc::base {

/// What a host gives in milliseconds; a time that no clock reaches is for ever.
constexpr uint64_t ns_of_ms(uint64_t ms) { return ms > UINT64_MAX / 1000000u ? KVC_FOREVER : ms * 1000000u; }

/// Time comes in through this seam, so that a test can lapse a lease without waiting.
class Clock {
 public:
  /// Monotonic nanoseconds.  Cheap (a few ns): precision of a kernel tick is enough for leases.
  virtual uint64_t now_ns() const = 0;
  /// Who waits for a time by a clock that may leap has to look at it now and then.
  virtual bool leaps() const { return true; }

 protected:
  ~Clock() = default;  // nobody owns one by this type, and so the system's needs no end
};

/// CLOCK_MONOTONIC_COARSE.
const Clock &system_clock();

/// For tests: moves only when told to.  Thread-safe.
class ManualClock final : public Clock {
 public:
  uint64_t now_ns() const override { return __atomic_load_n(&now_ns_, __ATOMIC_RELAXED); }
  void advance_ms(uint64_t ms) { __atomic_fetch_add(&now_ns_, ms * 1000000u, __ATOMIC_RELAXED); }

 private:
  uint64_t now_ns_ = 1000000000u;
};

}  // namespace kvc::base
