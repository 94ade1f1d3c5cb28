#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backend/operation_counters.h>

namespace towpath::backend {
namespace {

/// "name{labels} value" of all that is not 0.
std::vector<std::string> shown(const telemetry::Metrics& metrics) {
  std::vector<std::string> lines;
  for (const telemetry::Metric& metric : metrics.snapshot()) {
    const std::uint64_t value = std::get<std::uint64_t>(metric.value);
    if (value == 0) continue;
    lines.push_back(telemetry::to_string(metric.name, metric.labels) + " " + std::to_string(value));
  }
  return lines;
}

constexpr std::array<std::string_view, 2> kWays{"short", "long"};

TEST(OperationCountersTest, bytes_are_reported_by_operation_and_path) {
  telemetry::Metrics metrics;
  OperationCounters counters(&metrics, {.backend = "toy", .agent = "a", .paths = kWays});
  counters.moved(false, 0).add(3);
  counters.moved(true, 1).add(5);
  EXPECT_THAT(
      shown(metrics),
      ::testing::ElementsAre(R"(towpath_toy_bytes_total{agent="a",op="read",path="short"} 3)",
                             R"(towpath_toy_bytes_total{agent="a",op="write",path="long"} 5)"));
  EXPECT_EQ(counters.moved_to_string(), "short 3 B read, 0 B written; long 0 B read, 5 B written");
}

TEST(OperationCountersTest, one_way_needs_no_name) {
  telemetry::Metrics metrics;
  OperationCounters counters(&metrics, {.backend = "toy", .agent = "a", .paths = {}});
  counters.moved(false).add(3);
  EXPECT_THAT(shown(metrics),
              ::testing::ElementsAre(R"(towpath_toy_bytes_total{agent="a",op="read"} 3)"));
  EXPECT_EQ(counters.moved_to_string(), "3 B read, 0 B written");
}

TEST(OperationCountersTest, an_agent_s_name_of_any_bytes_is_a_printable_label) {
  telemetry::Metrics metrics;
  const OperationCounters counters(&metrics, {.backend = "toy", .agent = "\xff", .paths = {}});
  for (const telemetry::Metric& metric : metrics.snapshot())
    EXPECT_EQ(metric.labels.front().value, "\\xff") << metric.name;
}

TEST(OperationCountersTest, each_ending_is_counted_by_itself) {
  telemetry::Metrics metrics;
  OperationCounters counters(&metrics, {.backend = "toy", .agent = "a", .paths = {}});
  counters.ended(true, {});
  counters.ended(false, error(Code::cancelled, "stopped"));
  counters.ended(false, error(Code::io_error, "a bad block"));
  EXPECT_THAT(shown(metrics),
              ::testing::ElementsAre(
                  R"(towpath_toy_operations_total{agent="a",ending="cancelled",op="read"} 1)",
                  R"(towpath_toy_operations_total{agent="a",ending="done",op="write"} 1)",
                  R"(towpath_toy_operations_total{agent="a",ending="failed",op="read"} 1)"));
}

TEST(OperationCountersTest, without_metrics_they_count_for_themselves) {
  PieceCounters counters(nullptr, {.backend = "toy", .agent = "a", .paths = {}});
  counters.retries.add(2);
  EXPECT_EQ(counters.retries.value(), 2U);
}

}  // namespace
}  // namespace towpath::backend
