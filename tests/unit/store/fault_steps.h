#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fault.h"
#include "kvc/store.h"

#ifdef KVC_FAULTS

namespace kvc_test {

/// Makes every step of a history fail once at each place where it can.  `Steps` has a `host`, its `calls` in order, and `look`, all that a host can
/// see of what there is.
template <typename Steps>
void expect_failures_to_change_nothing() {
  std::vector<std::string> clean{Steps().look()};  // what there is before each step when nothing fails
  {
    Steps steps;
    for (size_t i = 0; i < steps.calls.size(); i++) {
      ASSERT_EQ(steps.calls[i](), KVC_OK) << "step " << i << ": " << steps.host.error.message;
      clean.push_back(steps.look());
    }
  }
  for (const char *point : {"memory.resource.allocate", "memory.slab.take", "seq.index.reserve", "store.append.reserved"}) {
    bool fired = true;
    uint64_t nth = 1, failures = 0;
    for (; fired; nth++) {
      ASSERT_LT(nth, 2000u) << point;
      fired = false;
      Steps steps;
      uint64_t passed = 0;
      for (size_t i = 0; i < steps.calls.size(); i++) {
        if (fired) {
          ASSERT_EQ(steps.calls[i](), KVC_OK) << point << " " << nth << ", step " << i << ": " << steps.host.error.message;
          continue;
        }
        const uint64_t passes = kvc::base::fault_passes(point);
        ASSERT_TRUE(kvc::base::fault_arm(point, nth - passed, 1));
        const kvc_status status = steps.calls[i]();
        kvc::base::fault_disarm_all();
        passed += kvc::base::fault_passes(point) - passes;
        fired = passed >= nth;
        if (status == KVC_OK) continue;
        ASSERT_TRUE(fired);
        failures++;
        EXPECT_TRUE(status == KVC_ERR_NO_MEMORY || status == KVC_ERR_FULL) << steps.host.error.message;
        EXPECT_TRUE(steps.look() == clean[i]) << point << " " << nth << ", step " << i;
        ASSERT_EQ(steps.calls[i](), KVC_OK) << point << " " << nth << ", step " << i << ", again: " << steps.host.error.message;
      }
      if (std::string(point) != "memory.slab.take") {  // there something else may have gone instead, or a latent row stays twice
        EXPECT_TRUE(steps.look() == clean.back()) << point << " " << nth;
      }
      EXPECT_EQ(kvc_store_verify(nullptr, steps.host.store, nullptr, nullptr), KVC_OK);
    }
    EXPECT_GT(failures, 0u) << point;
  }
}

}  // namespace kvc_test

#endif
