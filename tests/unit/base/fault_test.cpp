#include "base/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/error.h"

namespace kvc::base {
namespace {

#ifdef KVC_FAULTS

bool pass_first() { return KVC_FAULT("test.fault.first"); }
bool pass_second() { return KVC_FAULT("test.fault.second"); }
[[maybe_unused]] bool never_called() { return KVC_FAULT("test.fault.unreached"); }

bool contains(const std::vector<std::string> &names, const char *name) { return std::find(names.begin(), names.end(), name) != names.end(); }

class Fault : public testing::Test {
 protected:
  void TearDown() override { fault_disarm_all(); }
};

TEST_F(Fault, APointIsKnownBeforeItIsPassed) {
  EXPECT_TRUE(contains(fault_points(), "test.fault.unreached"));
  EXPECT_TRUE(contains(fault_points_never_fired(), "test.fault.unreached"));
  EXPECT_EQ(fault_passes("test.fault.unreached"), 0u);
}

TEST_F(Fault, NamesAreSortedAndAppearOnce) {
  const auto names = fault_points();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST_F(Fault, ExactlyTheArmedPassesFailCountedFromTheArming) {
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(pass_first());
  ASSERT_TRUE(fault_arm("test.fault.first", 3, 2));
  const bool want[] = {false, false, true, true, false, false};
  for (const bool fails : want) EXPECT_EQ(pass_first(), fails);
  EXPECT_FALSE(pass_second()) << "another point";
}

TEST_F(Fault, ArmingAgainReplacesTheWindow) {
  ASSERT_TRUE(fault_arm("test.fault.first", 1, UINT64_MAX));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(pass_first());
  ASSERT_TRUE(fault_arm("test.fault.first", 2, 1));
  EXPECT_FALSE(pass_first());
  EXPECT_TRUE(pass_first());
  EXPECT_FALSE(pass_first());
}

TEST_F(Fault, DisarmingKeepsTheCounts) {
  const uint64_t before = fault_passes("test.fault.second");
  EXPECT_TRUE(contains(fault_points_never_fired(), "test.fault.second"));
  ASSERT_TRUE(fault_arm("test.fault.second", 1, UINT64_MAX));
  EXPECT_TRUE(pass_second());
  fault_disarm_all();
  EXPECT_FALSE(pass_second());
  EXPECT_EQ(fault_passes("test.fault.second"), before + 2);
  EXPECT_FALSE(contains(fault_points_never_fired(), "test.fault.second"));
}

TEST_F(Fault, AnUnknownPointOrAnEmptyWindowArmsNothing) {
  EXPECT_FALSE(fault_arm("test.fault.missing", 1, 1));
  EXPECT_FALSE(fault_arm("test.fault.first", 0, 1));
  EXPECT_FALSE(fault_arm("test.fault.first", 1, 0));
  EXPECT_FALSE(pass_first());
  EXPECT_EQ(fault_passes("test.fault.missing"), 0u);
}

TEST_F(Fault, OfPassesInManyThreadsExactlyTheArmedNumberFails) {
  ASSERT_TRUE(fault_arm("test.fault.first", 1000, 500));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) failed += pass_first();
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failed, 500);
}

TEST_F(Fault, ArmingWhileOthersPassIsSafe) {
  std::atomic<bool> stop{false};
  std::thread passer([&] {
    while (!stop) pass_first();
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(fault_arm("test.fault.first", 1, 3));
    fault_disarm_all();
  }
  stop = true;
  passer.join();
  EXPECT_FALSE(pass_first());
}

#else

TEST(Fault, WithoutThemAPointIsTheConstantFalse) {
  static_assert(!KVC_FAULT("test.fault.first"));
  SUCCEED();
}

#endif

}  // namespace
}  // namespace kvc::base
