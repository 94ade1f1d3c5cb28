#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {
namespace {

TEST(MetricsTest, same_name_and_labels_are_the_same_metric) {
  Metrics metrics;
  Counter& one = metrics.counter("blocks", {{"tier", "host"}, {"pool", "a"}});
  Counter& same = metrics.counter("blocks", {{"pool", "a"}, {"tier", "host"}});
  Counter& other = metrics.counter("blocks", {{"pool", "b"}, {"tier", "host"}});
  EXPECT_EQ(&one, &same);
  EXPECT_NE(&one, &other);
}

TEST(MetricsTest, snapshot_lists_every_metric_in_order) {
  Metrics metrics;
  metrics.gauge("in_flight").add(5);
  metrics.gauge("in_flight").subtract(7);
  metrics.counter("bytes", {{"hop", "pull"}}).add(4096);
  metrics.histogram("bytes").record(std::uint64_t{9});
  const std::uint64_t bounds[] = {5};
  metrics.bucket_histogram("time", {}, BucketBounds::of(bounds).value()).record(std::uint64_t{6});
  const auto all = metrics.snapshot();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "bytes");
  EXPECT_EQ(std::get<HistogramSummary>(all[0].value).count, 1U);
  EXPECT_EQ(all[1], (Metric{"bytes", {{"hop", "pull"}}, std::uint64_t{4096}}));
  EXPECT_EQ(all[2], (Metric{"in_flight", {}, std::int64_t{-2}}));
  EXPECT_EQ(all[3], (Metric{"time", {}, BucketCounts{{5}, {0, 1}, 6}}));
}

TEST(MetricsTest, names_and_labels_print_safely) {
  EXPECT_EQ(to_string("up", {}), "up");
  EXPECT_EQ(to_string("up", {{"a", "1"}, {"b", "x\n"}}), "up{a=\"1\",b=\"x\\x0a\"}");
}

TEST(MetricsTest, a_name_of_any_bytes_is_a_printable_label) {
  EXPECT_EQ(name_label("decode-0"), "decode-0");
  EXPECT_EQ(name_label("\xff\n"), "\\xff\\x0a");
  EXPECT_EQ(name_label(std::string(300, 'n')), std::string(128, 'n') + "...");
}

TEST(MetricsTest, references_hold_while_threads_add_more) {
  Metrics metrics;
  Counter& counter = metrics.counter("kept");
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&metrics, &counter, thread] {
        for (int i = 0; i < 100; ++i) {
          counter.add();
          metrics.counter("c" + std::to_string(thread * 100 + i)).add();
          if (i % 10 == 0) (void)metrics.snapshot();
        }
      });
  }
  EXPECT_EQ(counter.value(), 400U);
  EXPECT_EQ(metrics.snapshot().size(), 401U);
}

}  // namespace
}  // namespace towpath::telemetry
