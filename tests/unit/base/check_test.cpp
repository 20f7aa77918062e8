#include "base/check.h"

#include <gtest/gtest.h>

namespace kvc::base {
namespace {

TEST(CheckDeathTest, ABrokenInvariantNamesItselfAndItsPlaceAndEndsTheProcess) {
  EXPECT_DEATH(KVC_CHECK(1 + 1 == 3), R"(^kvc: broken invariant at check_test\.cpp:[0-9]+: 1 \+ 1 == 3)");
}

TEST(Check, AnInvariantThatHoldsIsEvaluatedOnce) {
  int evaluated = 0;
  KVC_CHECK(++evaluated);
  EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace kvc::base
