// What an agent tells its meter: two agents of one process, and a backend that fails on demand.
#include <algorithm>

#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/agent_meter.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::agent {
namespace {

using telemetry::AgentMeter;
using telemetry::FlightEvent;
using telemetry::Metric;
using telemetry::Metrics;

constexpr std::uint64_t kPool = 64 * 1024;

struct alignas(64) Line {
  std::byte bytes[64];
};

class MeterTest : public ::testing::Test {
 protected:
  MeterTest() {
    EXPECT_TRUE(registry_.add(backends::loopback::loopback_type()).ok());
    flight_ = telemetry::FlightRecorder::format(memory(), clock_).value();
    meter_ = std::make_unique<AgentMeter>(
        metrics_, AgentMeter::Options{.agent = "left", .flight = &*flight_});
    left_ = make("left", meter_.get());
    right_ = make("right", nullptr);
    left_pool_ = left_->register_region(left_region_).value();
    right_pool_ = right_->register_region(right_region_).value();
    EXPECT_TRUE(left_->load_metadata(*right_->metadata()).ok());
    EXPECT_TRUE(right_->load_metadata(*left_->metadata()).ok());
  }

  std::unique_ptr<Agent> make(const std::string& name, AgentMeter* meter) {
    auto agent = Agent::create({.name = name,
                                .registry = &registry_,
                                .clock = &clock_,
                                .capture_telemetry = false,
                                .meter = meter});
    EXPECT_TRUE((*agent)->add_backend("loopback").ok());
    return *std::move(agent);
  }

  ByteSpan memory() { return {lines_.front().bytes, lines_.size() * sizeof(Line)}; }

  static DescriptorList all_of(const memory::SharedRegion& region) {
    const RegionDescriptor all = region->descriptor();
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(StridedDescriptor{all.address, 4096, 8192, 4}).ok());
    return list;
  }
  Result<Transfer> pull(const TransferOptions& options = {}) {
    return left_->create_transfer(TransferOp::read, all_of(left_region_), "right",
                                  all_of(right_region_), options);
  }

  // The sum of all counters and gauges of this name, with this label.
  std::int64_t sum(std::string_view name, const telemetry::Label& with) {
    std::int64_t total = 0;
    for (const Metric& metric : metrics_.snapshot()) {
      const bool has = std::ranges::find(metric.labels, with) != metric.labels.end();
      if (metric.name != name || !has) continue;
      if (const auto* count = std::get_if<std::uint64_t>(&metric.value))
        total += static_cast<std::int64_t>(*count);
      if (const auto* level = std::get_if<std::int64_t>(&metric.value)) total += *level;
      if (const auto* spread = std::get_if<telemetry::BucketCounts>(&metric.value))
        total += static_cast<std::int64_t>(spread->total());
    }
    return total;
  }

  sys::SystemClock clock_;
  backend::Registry registry_;
  std::vector<Line> lines_{telemetry::FlightRecorder::bytes_for(256) / sizeof(Line)};
  std::optional<telemetry::FlightRecorder> flight_;
  Metrics metrics_;
  std::unique_ptr<AgentMeter> meter_;
  memory::SharedRegion left_region_ = *memory::SystemRegion::allocate(kPool);
  memory::SharedRegion right_region_ = *memory::SystemRegion::allocate(kPool);
  std::unique_ptr<Agent> left_, right_;
  memory::Registration left_pool_, right_pool_;
};

TEST_F(MeterTest, transfer_that_is_done_is_counted_once_however_often_it_is_looked_at) {
  auto transfer = pull({.notification = to_bytes("got them")}).value();
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(transfer.post().ok());
    ASSERT_EQ(transfer.wait(), Outcome::done);
    (void)transfer.wait();
  }
  EXPECT_EQ(sum("towpath_transfers_total", {"outcome", "done"}), 3);
  EXPECT_EQ(sum("towpath_transfer_bytes_total", {"peer", "right"}), 3 * 4 * 4096);
  EXPECT_EQ(sum("towpath_transfer_descriptors_total", {"op", "read"}), 3 * 4);
  EXPECT_EQ(sum("towpath_transfer_nanoseconds", {"backend", "loopback"}), 3);
  EXPECT_EQ(sum("towpath_post_nanoseconds", {"backend", "loopback"}), 3);
  EXPECT_EQ(sum("towpath_transfers_in_flight", {"peer", "right"}), 0);
  EXPECT_EQ(sum("towpath_transfer_bytes_in_flight", {"peer", "right"}), 0);
  EXPECT_EQ(sum("towpath_notifications_total", {"direction", "sent"}), 3);
}

TEST_F(MeterTest, notifications_are_counted_on_both_ways_and_when_refused) {
  ASSERT_TRUE(right_->notify("left", to_bytes("12345")).ok());
  while (left_->take_notifications().empty()) left_->progress();
  EXPECT_EQ(sum("towpath_notifications_total", {"direction", "received"}), 1);
  EXPECT_EQ(sum("towpath_notification_bytes_total", {"direction", "received"}), 5);
  EXPECT_FALSE(left_->notify("right", Bytes(std::size_t{17} << 20U)).ok());
  EXPECT_EQ(sum("towpath_notifications_total", {"direction", "refused"}), 1);
}

TEST_F(MeterTest, memory_is_counted_while_it_is_registered) {
  EXPECT_EQ(sum("towpath_registered_bytes", {"kind", "system"}), kPool);
  const auto again = left_->register_region(left_region_).value();
  EXPECT_EQ(sum("towpath_registrations_total", {"backend", "loopback"}), 1)
      << "the backend knows these bytes already";
  left_pool_ = {};
  EXPECT_EQ(sum("towpath_registered_bytes", {"kind", "system"}), kPool);
}

TEST_F(MeterTest, memory_that_two_backends_take_is_counted_for_each_and_once) {
  Script script;
  ASSERT_TRUE(registry_.add(scripted_type("other", script)).ok());
  AgentMeter meter(metrics_, {.agent = "two"});
  const auto agent = make("two", &meter);
  ASSERT_TRUE(agent->add_backend("other").ok());
  const telemetry::Label two{"agent", "two"};
  const memory::SharedRegion region = *memory::SystemRegion::allocate(4096);
  auto first = agent->register_region(region).value();
  auto again = agent->register_region(region).value();
  EXPECT_EQ(sum("towpath_registered_bytes_total", two), 2 * 4096);
  EXPECT_EQ(sum("towpath_memory_registered_bytes_total", two), 4096);
  first = {};
  EXPECT_EQ(sum("towpath_memory_deregistered_bytes_total", two), 0);
  again = {};
  EXPECT_EQ(sum("towpath_deregistered_bytes_total", two), 2 * 4096);
  EXPECT_EQ(sum("towpath_memory_deregistered_bytes_total", two), 4096);
}

TEST_F(MeterTest, lost_peer_is_counted_and_the_flight_recorder_has_the_story) {
  auto transfer = pull().value();
  ASSERT_TRUE(transfer.post().ok());
  ASSERT_EQ(transfer.wait(), Outcome::done);
  right_pool_ = {};
  right_.reset();
  while (!left_->peer("right").value().lost) left_->progress();
  EXPECT_EQ(sum("towpath_peers_lost_total", {"agent", "left"}), 1);
  left_pool_ = {};
  left_.reset();
  const auto log = telemetry::read_flight(memory()).value();
  std::vector<FlightEvent> events;
  for (const auto& record : log.records) events.push_back(static_cast<FlightEvent>(record.what));
  EXPECT_EQ(events, (std::vector{FlightEvent::agent_opened, FlightEvent::registered,
                                 FlightEvent::peer_met, FlightEvent::transfer_posted,
                                 FlightEvent::transfer_ended, FlightEvent::peer_lost,
                                 FlightEvent::deregistered, FlightEvent::agent_closed}));
  EXPECT_EQ(log.records[3].args[1], 4U) << "descriptors";
  EXPECT_EQ(log.records[3].args[3], 4U) << "runs: every other block";
  EXPECT_EQ(log.records[4].args[0], log.records[3].ticket);
  EXPECT_EQ(log.name(log.records[4].who), "right");
}

TEST_F(MeterTest, cancelled_transfer_is_counted_as_such) {
  auto transfer = pull().value();
  ASSERT_TRUE(transfer.post({.timeout = Duration(0)}).ok());
  const Outcome outcome = transfer.wait();
  EXPECT_EQ(sum("towpath_transfers_total", {"outcome", std::string(name_of(outcome))}), 1);
  const bool failed = outcome != Outcome::done;
  EXPECT_EQ(sum("towpath_transfer_errors_total", {"agent", "left"}), failed ? 1 : 0);
}

}  // namespace
}  // namespace towpath::agent
