#include "tools/units.h"

#include <gtest/gtest.h>

namespace towpath::tools {
namespace {

using std::chrono::nanoseconds;

TEST(UnitsTest, thousands_are_grouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(UnitsTest, durations_have_three_digits_that_count) {
  EXPECT_EQ(duration_text(nanoseconds(0)), "0 ns");
  EXPECT_EQ(duration_text(nanoseconds(812)), "812 ns");
  EXPECT_EQ(duration_text(nanoseconds(3'620)), "3.62 us");
  EXPECT_EQ(duration_text(nanoseconds(45'120'000)), "45.1 ms");
  EXPECT_EQ(duration_text(nanoseconds(999'600)), "1.00 ms");
  EXPECT_EQ(duration_text(std::chrono::seconds(12)), "12.0 s");
  EXPECT_EQ(duration_text(std::chrono::seconds(245)), "4 min 05 s");
}

TEST(UnitsTest, a_rate_without_time_is_not_a_number) {
  EXPECT_EQ(rate_text(9'810'000'000, std::chrono::seconds(1)), "9.81 GB/s");
  EXPECT_EQ(rate_text(100, nanoseconds(0)), "-");
}

TEST(UnitsTest, sizes_are_in_powers_of_1024) {
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.00 KiB");
  EXPECT_EQ(size_text(std::uint64_t{5} << 28U), "1.25 GiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16384 PiB");
}

TEST(UnitsTest, ratios_are_percents) {
  EXPECT_EQ(percent(0.3736), "37.4 %");
  EXPECT_EQ(percent(1), "100.0 %");
}

}  // namespace
}  // namespace towpath::tools
