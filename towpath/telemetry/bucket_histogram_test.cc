#include <thread>

#include <gtest/gtest.h>

#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {
namespace {

TEST(BucketHistogramTest, bound_belongs_to_its_bucket) {
  const std::uint64_t bounds[] = {10, 20};
  BucketHistogram histogram(BucketBounds::of(bounds).value());
  for (const std::uint64_t value : {0U, 10U, 11U, 20U, 21U, 1000U}) histogram.record(value);
  const BucketCounts counts = histogram.counts();
  EXPECT_EQ(counts.bounds, (std::vector<std::uint64_t>{10, 20}));
  EXPECT_EQ(counts.counts, (std::vector<std::uint64_t>{2, 2, 2}));
  EXPECT_EQ(counts.sum, 1062U);
  EXPECT_EQ(counts.total(), 6U);
}

TEST(BucketHistogramTest, default_bounds_are_times_from_a_microsecond_to_ten_seconds) {
  const BucketBounds bounds;
  ASSERT_EQ(bounds.all().size(), 22U);
  EXPECT_EQ(bounds.all()[0], 1'000U);
  EXPECT_EQ(bounds.all()[2], 5'000U);
  EXPECT_EQ(bounds.all()[3], 10'000U);
  EXPECT_EQ(bounds.all().back(), 10'000'000'000U);
}

TEST(BucketHistogramTest, negative_times_count_as_none) {
  BucketHistogram histogram;
  histogram.record(std::chrono::nanoseconds(-5));
  EXPECT_EQ(histogram.counts().counts.front(), 1U);
  EXPECT_EQ(histogram.counts().sum, 0U);
}

TEST(BucketHistogramTest, bounds_that_make_no_sense_are_refused) {
  const std::uint64_t equal[] = {10, 10};
  EXPECT_EQ(BucketBounds::of({}).code(), Code::invalid_argument);
  EXPECT_EQ(BucketBounds::of(equal).code(), Code::invalid_argument);
  std::vector<std::uint64_t> many(BucketBounds::kMost + 1);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i;
  EXPECT_EQ(BucketBounds::of(many).code(), Code::invalid_argument);
  many.pop_back();
  EXPECT_TRUE(BucketBounds::of(many).ok());
}

TEST(BucketHistogramTest, reader_never_counts_more_than_was_recorded) {
  constexpr std::uint64_t kRecords = 20'000;
  BucketHistogram histogram;
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kRecords; ++i) histogram.record(i * 1000);
  });
  std::uint64_t seen = 0;
  while (seen < kRecords) {
    const std::uint64_t now = histogram.counts().total();
    ASSERT_GE(now, seen);
    ASSERT_LE(now, kRecords);
    seen = now;
  }
}

}  // namespace
}  // namespace towpath::telemetry
