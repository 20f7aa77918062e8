#include "base/clock.h"

#include <time.h>

namespace kvc::base {
namespace {

class SystemClock final : public Clock {
 public:
  uint64_t now_ns() const override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  }
  bool leaps() const override { return false; }
};

// Constant-initialised and without state, so it may be used before main and after static destruction.
constinit const SystemClock kSystemClock;

}  // namespace

const Clock &system_clock() { return kSystemClock; }

}  // namespace kvc::base
