#include "base/clock.h"

#include <gtest/gtest.h>
#include <time.h>

namespace kvc::base {
namespace {

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

TEST(Clock, TheSystemClockFollowsTheMonotonicClockAndNeverGoesBack) {
  uint64_t last_ns = 0;
  const uint64_t begin_ns = monotonic_ns();
  while (monotonic_ns() - begin_ns < 30'000'000) {
    const uint64_t now_ns = system_clock().now_ns();
    ASSERT_GE(now_ns, last_ns);
    last_ns = now_ns;
  }
  const uint64_t end_ns = monotonic_ns();
  // The precision is a kernel tick: 10 ms at most.
  EXPECT_GE(system_clock().now_ns() + 20'000'000, end_ns);
  EXPECT_LE(last_ns, end_ns);
}

TEST(Clock, AManualClockMovesOnlyWhenToldTo) {
  ManualClock clock;
  const uint64_t begin_ns = clock.now_ns();
  EXPECT_GT(begin_ns, 0u) << "0 is kept for 'never'";
  EXPECT_EQ(clock.now_ns(), begin_ns);
  clock.advance_ms(1500);
  EXPECT_EQ(clock.now_ns() - begin_ns, 1'500'000'000u);
}

TEST(Clock, MillisecondsThatNoClockReachesAreForever) {
  EXPECT_EQ(ns_of_ms(0), 0u);
  EXPECT_EQ(ns_of_ms(1500), 1500000000u);
  EXPECT_EQ(ns_of_ms(UINT64_MAX / 1000000), UINT64_MAX / 1000000 * 1000000);
  EXPECT_EQ(ns_of_ms(UINT64_MAX / 1000000 + 1), KVC_FOREVER);
  EXPECT_EQ(ns_of_ms(KVC_FOREVER), KVC_FOREVER);
}

}  // namespace
}  // namespace kvc::base
