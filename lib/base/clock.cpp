#include "base/clock.h"

#include <time.h>

#include <type_traits>

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

// Threads of ours read it until the process is gone, also while it ends without kvc_close: it is there before main and has no destructor.
static_assert(std::is_trivially_destructible_v<SystemClock>);
constinit const SystemClock kSystemClock;

}  // namespace

const Clock &system_clock() { return kSystemClock; }

}  // namespace kvc::base
