// Each fault point fires at its first pass, its second, ... until a scenario over the whole surface runs through without it: every failed call has
// the right status, has changed nothing stored, leaks nothing, and succeeds when it is made again.
#include "base/fault.h"

#include <gtest/gtest.h>

#include <map>

#include "scenario.h"

namespace kvc::fault {
namespace {

/// What a call says when the point fires in it; KVC_OK is allowed where the call can do without.
const std::map<std::string, kvc_status> &expected_statuses() {
  static const std::map<std::string, kvc_status> statuses = {
      {"memory.arena.map", KVC_ERR_NO_MEMORY},        {"memory.resource.allocate", KVC_ERR_NO_MEMORY}, {"memory.slab.take", KVC_ERR_FULL},
      {"seq.index.reserve", KVC_ERR_NO_MEMORY},       {"store.append.reserved", KVC_ERR_NO_MEMORY},
  };
  return statuses;
}

struct Clean {
  std::vector<std::string> snapshots;  // after each step
  uint64_t metadata_bytes = 0;
};

Clean clean_run() {
  Clean clean;
  Scenario scenario;
  for (const Scenario::Step &step : scenario.steps()) {
    EXPECT_EQ(step.call(), KVC_OK) << step.name << ": " << scenario.message();
    clean.snapshots.push_back(scenario.snapshot());
  }
  clean.metadata_bytes = scenario.metadata_bytes();
  return clean;
}

/// One run in which the nth pass fails; false: there was none.
bool run(const std::string &point, uint64_t nth, const Clean &clean) {
  Scenario scenario;
  uint64_t passed = 0;
  bool fired = false;
  for (size_t i = 0; i < scenario.steps().size(); i++) {
    const Scenario::Step &step = scenario.steps()[i];
    const std::string where = point + ", pass " + std::to_string(nth) + ", in " + step.name;
    const std::string before = i && !fired ? clean.snapshots[i - 1] : "";
    const uint64_t passes = base::fault_passes(point.c_str());
    if (!fired) {
      EXPECT_TRUE(base::fault_arm(point.c_str(), nth - passed, 1));
    }
    const kvc_status status = step.call();
    base::fault_disarm_all();
    passed += base::fault_passes(point.c_str()) - passes;
    if (fired || passed < nth) {
      EXPECT_EQ(status, KVC_OK) << where << ": " << scenario.message();
      continue;
    }
    fired = true;
    if (status == KVC_OK) {
      EXPECT_TRUE(scenario.snapshot() == clean.snapshots[i]) << where << ": it did without, and something is different";
      continue;
    }
    EXPECT_EQ(status, expected_statuses().at(point)) << where << ": " << scenario.message();
    EXPECT_NE(std::string(scenario.message()), "") << where;
    EXPECT_TRUE(scenario.snapshot() == before) << where << ": the failed call changed what is stored";
    if (scenario.is_open()) {
      EXPECT_EQ(scenario.verify(), KVC_OK) << where << ": " << scenario.message();
    }
    EXPECT_EQ(step.call(), KVC_OK) << where << ", again: " << scenario.message();
    EXPECT_TRUE(scenario.snapshot() == clean.snapshots[i]) << where << ": made again it gave something else";
  }
  EXPECT_TRUE(scenario.snapshot() == clean.snapshots.back()) << point << ", pass " << nth << ": the end differs";
  EXPECT_EQ(scenario.metadata_bytes(), clean.metadata_bytes) << point << ", pass " << nth << ": bookkeeping was left behind";
  return fired;
}

TEST(Fault, EveryPointFailsEveryCallThatPassesItWithoutATrace) {
  const Clean clean = clean_run();
  ASSERT_FALSE(HasFailure());
  for (const auto &[point, status] : expected_statuses()) {
    uint64_t nth = 1;
    while (run(point, nth, clean) && !HasFailure()) nth++;
    EXPECT_GT(nth, 1u) << point << " was never passed";
    RecordProperty(point, static_cast<int>(nth - 1));
  }
}

// A page that fails its check is gone: the one failure that takes something away, and nothing but that.
TEST(Fault, APageThatFailsItsCheckIsDroppedAndTheRestIsAsItWas) {
  for (uint64_t nth = 1;; nth++) {
    Scenario scenario;
    for (const Scenario::Step &step : scenario.steps()) {
      if (step.name == "store_verify") break;
      ASSERT_EQ(step.call(), KVC_OK) << step.name << ": " << scenario.message();
    }
    const uint64_t passes = base::fault_passes("store.page.verify");
    ASSERT_TRUE(base::fault_arm("store.page.verify", nth, 1));
    const kvc_status status = scenario.verify();
    base::fault_disarm_all();
    if (base::fault_passes("store.page.verify") - passes < nth) {
      EXPECT_EQ(status, KVC_OK);
      EXPECT_GT(nth, 20u) << "few pages";
      break;
    }
    ASSERT_EQ(status, KVC_ERR_CORRUPT) << "pass " << nth;
    ASSERT_EQ(scenario.verify(), KVC_OK) << "pass " << nth << ": " << scenario.message();
  }
}

TEST(Fault, NoPointIsLeftThatNeverFired) {
  const std::vector<std::string> left = base::fault_points_never_fired();
  std::string names;
  for (const std::string &name : left) names += name + " ";
  EXPECT_TRUE(left.empty()) << "never made anything fail: " << names << "(with the tests before this one)";
}

}  // namespace
}  // namespace kvc::fault
