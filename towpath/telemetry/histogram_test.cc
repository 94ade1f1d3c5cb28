#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {
namespace {

TEST(HistogramTest, empty_one_answers_zero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.summary(), HistogramSummary{});
  EXPECT_EQ(histogram.percentile(50), 0U);
}

TEST(HistogramTest, buckets_touch_without_gap_or_overlap) {
  std::uint64_t first = 0;
  for (std::size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const std::uint64_t last = Histogram::largest_of(bucket);
    ASSERT_EQ(Histogram::bucket_of(first), bucket);
    ASSERT_EQ(Histogram::bucket_of(last), bucket);
    ASSERT_LE(last - first, first / 32) << "wider than the stated error";
    first = last + 1;
  }
  EXPECT_EQ(first, 0U) << "the last bucket ends at 2^64 - 1";
}

TEST(HistogramTest, percentiles_stay_within_the_stated_error) {
  Histogram histogram;
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> values(5000);
  for (auto& value : values) {
    value = random() >> (random() % 60);
    histogram.record(value);
  }
  std::ranges::sort(values);
  for (double percent : {0.1, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * 5000));
    const std::uint64_t exact = values[rank - 1];
    const std::uint64_t reported = histogram.percentile(percent);
    EXPECT_GE(reported, exact) << percent;
    EXPECT_LE(reported - exact, exact / 32) << percent;
  }
}

TEST(HistogramTest, small_values_count_sum_and_extremes_are_exact) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 20; ++value) histogram.record(value);
  const auto summary = histogram.summary();
  EXPECT_EQ(summary.count, 20U);
  EXPECT_EQ(summary.sum, 210U);
  EXPECT_EQ(summary.min, 1U);
  EXPECT_EQ(summary.max, 20U);
  EXPECT_EQ(summary.p50, 10U);
  EXPECT_EQ(summary.p90, 18U);
  EXPECT_DOUBLE_EQ(summary.mean(), 10.5);
}

TEST(HistogramTest, no_percentile_is_above_the_largest_value) {
  Histogram histogram;
  histogram.record(1'000'001);
  EXPECT_EQ(histogram.percentile(50), 1'000'001U);
  EXPECT_EQ(histogram.percentile(1e9), 1'000'001U);
  EXPECT_EQ(histogram.percentile(-1), 1'000'001U);
}

TEST(HistogramTest, negative_times_count_as_zero) {
  Histogram histogram;
  histogram.record(std::chrono::nanoseconds(-5));
  EXPECT_EQ(histogram.summary().max, 0U);
  EXPECT_EQ(histogram.summary().count, 1U);
}

TEST(HistogramTest, merge_gives_what_one_histogram_would_have_seen) {
  Histogram left;
  Histogram right;
  Histogram both;
  for (std::uint64_t value : {3ULL, 500ULL, 70'000ULL}) {
    left.record(value);
    both.record(value);
  }
  for (std::uint64_t value : {1ULL, 900'000ULL}) {
    right.record(value);
    both.record(value);
  }
  left.merge(right);
  EXPECT_EQ(left.summary(), both.summary());
  left.merge(Histogram());
  EXPECT_EQ(left.summary(), both.summary()) << "an empty one changes nothing";
}

TEST(HistogramTest, loses_no_record_of_many_threads) {
  Histogram histogram;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 1; thread <= 4; ++thread)
      threads.emplace_back([&histogram, thread] {
        for (int i = 0; i < 2000; ++i) histogram.record(thread * 1000);
      });
  }
  const auto summary = histogram.summary();
  EXPECT_EQ(summary.count, 8000U);
  EXPECT_EQ(summary.sum, 20'000'000U);
  EXPECT_EQ(summary.min, 1000U);
  EXPECT_EQ(summary.max, 4000U);
}

}  // namespace
}  // namespace towpath::telemetry
