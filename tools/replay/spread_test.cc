#include "tools/replay/spread.h"

#include <gtest/gtest.h>

namespace towpath::tools::replay {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(SpreadTest, percentiles_are_never_below_the_true_ones_and_little_above) {
  Spread spread;
  for (int us = 1; us <= 1000; ++us) spread.add(microseconds(us));
  EXPECT_EQ(spread.count(), 1000U);
  EXPECT_EQ(spread.sum(), microseconds(500'500));
  for (const int percent : {1, 50, 90, 99}) {
    EXPECT_GE(spread.percentile(percent), microseconds(percent * 10));
    EXPECT_LE(spread.percentile(percent), nanoseconds(percent * 10'320));
  }
  EXPECT_EQ(Spread().percentile(50), nanoseconds(0));
}

TEST(SpreadTest, two_added_are_one_that_saw_all) {
  Spread low, high, all;
  for (int ns = 0; ns < 5000; ++ns) {
    (ns < 1000 ? low : high).add(nanoseconds(ns));
    all.add(nanoseconds(ns));
  }
  low.add(Spread::unpacked(high.packed()));
  EXPECT_EQ(low.packed(), all.packed());
  EXPECT_EQ(low.count(), all.count());
  EXPECT_EQ(Spread::unpacked({}).count(), 0U);
  EXPECT_EQ(Spread::unpacked({1, 2}).count(), 0U);
}

}  // namespace
}  // namespace towpath::tools::replay
