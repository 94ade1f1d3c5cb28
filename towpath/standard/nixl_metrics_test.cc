#include <gtest/gtest.h>

#include <towpath/standard/nixl_metrics.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::standard {
namespace {

using telemetry::AgentMeter;
using telemetry::BucketCounts;
using telemetry::Metric;
using telemetry::Metrics;

const Metric* find(const std::vector<Metric>& all, std::string_view name) {
  for (const Metric& metric : all) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

TEST(NixlMetricsTest, peers_and_backends_are_summed_under_their_names) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  for (const char* peer : {"p0", "p1"}) {
    telemetry::Flow& pull = meter.flow({.backend = "shm", .peer = peer});
    pull.ended({.moved_bytes = 100, .time = std::chrono::microseconds(3)});
  }
  meter.flow({.backend = "shm", .peer = "p0", .op = TransferOp::write}).ended({.moved_bytes = 7});
  meter.registered({"shm", MemoryKind::system, 4096});
  meter.registered({"tcp", MemoryKind::system, 4096, false});
  const auto theirs = nixl_metrics(metrics.snapshot(), "host-1");
  EXPECT_EQ(*find(theirs, "agent_rx_bytes_total"),
            (Metric{"agent_rx_bytes_total",
                    {{"agent_name", "decode"}, {"hostname", "host-1"}},
                    std::uint64_t{200}}));
  EXPECT_EQ(find(theirs, "agent_rx_requests_num_total")->value,
            Metric({}, {}, std::uint64_t{2}).value);
  EXPECT_EQ(find(theirs, "agent_tx_bytes_total")->value, Metric({}, {}, std::uint64_t{7}).value);
  EXPECT_EQ(find(theirs, "agent_memory_registered_total")->value,
            Metric({}, {}, std::uint64_t{4096}).value);
  const auto& time = std::get<BucketCounts>(find(theirs, "agent_xfer_time_nanoseconds")->value);
  EXPECT_EQ(time.bounds.front(), 1000U);
  EXPECT_EQ(time.total(), 3U);
  EXPECT_EQ(time.sum, 6000U);
}

TEST(NixlMetricsTest, errors_keep_their_status) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  meter.flow({.backend = "shm", .peer = "p"})
      .ended({.outcome = Outcome::timed_out, .code = Code::timed_out});
  std::uint64_t errors = 0;
  for (const Metric& metric : nixl_metrics(metrics.snapshot(), "h")) {
    if (metric.name != "agent_errors_total") continue;
    ASSERT_EQ(metric.labels.size(), 3U);
    const auto count = std::get<std::uint64_t>(metric.value);
    EXPECT_EQ(count, metric.labels.back().value == "timed_out" ? 1U : 0U);
    errors += count;
  }
  EXPECT_EQ(errors, 1U);
}

TEST(NixlMetricsTest, what_they_do_not_know_is_left_out) {
  Metrics metrics;
  metrics.counter("towpath_notifications_total").add();
  EXPECT_TRUE(nixl_metrics(metrics.snapshot(), "h").empty());
}

}  // namespace
}  // namespace towpath::standard
