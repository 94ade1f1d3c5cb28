#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::telemetry {
namespace {

using std::chrono::microseconds;

struct alignas(64) Line {
  std::byte bytes[64];
};

// All values by printed name.
std::map<std::string, std::int64_t> values_of(const Metrics& metrics) {
  std::map<std::string, std::int64_t> values;
  for (const Metric& metric : metrics.snapshot()) {
    const std::string name = to_string(metric.name, metric.labels);
    if (const auto* count = std::get_if<std::uint64_t>(&metric.value))
      values[name] = static_cast<std::int64_t>(*count);
    if (const auto* level = std::get_if<std::int64_t>(&metric.value)) values[name] = *level;
    if (const auto* buckets = std::get_if<BucketCounts>(&metric.value))
      values[name] = static_cast<std::int64_t>(buckets->total());
  }
  return values;
}

constexpr AgentMeter::FlowOf kPull{.backend = "shm", .peer = "prefill"};
const std::string kPullLabels =
    R"({agent="decode",backend="shm",local="system",op="read",peer="prefill",remote="system"})";

TEST(AgentMeterTest, transfer_is_counted_while_it_flies_and_when_it_ends) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  Flow& flow = meter.flow(kPull);
  flow.posted({.bytes = 4096, .descriptors = 2});
  EXPECT_EQ(values_of(metrics)["towpath_transfers_in_flight" + kPullLabels], 1);
  EXPECT_EQ(values_of(metrics)["towpath_transfer_bytes_in_flight" + kPullLabels], 4096);
  flow.post_took(microseconds(1));
  flow.ended(
      {.posted_bytes = 4096, .moved_bytes = 4000, .descriptors = 2, .time = microseconds(9)});
  auto values = values_of(metrics);
  EXPECT_EQ(values["towpath_transfers_in_flight" + kPullLabels], 0);
  EXPECT_EQ(values["towpath_transfer_bytes_in_flight" + kPullLabels], 0);
  EXPECT_EQ(values["towpath_transfer_bytes_total" + kPullLabels], 4000);
  EXPECT_EQ(values["towpath_transfer_descriptors_total" + kPullLabels], 2);
  EXPECT_EQ(values["towpath_transfer_nanoseconds" + kPullLabels], 1);
  EXPECT_EQ(values["towpath_post_nanoseconds" + kPullLabels], 1);
  EXPECT_EQ(values[R"(towpath_transfers_total{agent="decode",backend="shm",local="system",)"
                   R"(op="read",outcome="done",peer="prefill",remote="system"})"],
            1);
}

TEST(AgentMeterTest, failure_is_counted_by_its_code_and_its_outcome) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  meter.flow(kPull).ended({.outcome = Outcome::timed_out, .code = Code::timed_out});
  auto values = values_of(metrics);
  EXPECT_EQ(values[R"(towpath_transfer_errors_total{agent="decode",status="timed_out"})"], 1);
  EXPECT_EQ(values[R"(towpath_transfer_errors_total{agent="decode",status="corrupt"})"], 0);
  EXPECT_EQ(values[R"(towpath_transfers_total{agent="decode",backend="shm",local="system",)"
                   R"(op="read",outcome="timed_out",peer="prefill",remote="system"})"],
            1);
}

TEST(AgentMeterTest, same_flow_is_the_same_and_another_kind_is_not) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  AgentMeter::FlowOf disk = kPull;
  disk.remote = MemoryKind::disk;
  EXPECT_EQ(&meter.flow(kPull), &meter.flow(kPull));
  EXPECT_NE(&meter.flow(kPull), &meter.flow(disk));
}

TEST(AgentMeterTest, many_peers_share_one_label) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode", .max_peers = 2});
  const auto flow_with = [&](const std::string& peer) -> Flow& {
    return meter.flow({.backend = "shm", .peer = peer});
  };
  Flow& first = flow_with("p0");
  Flow& second = flow_with("p1");
  Flow& others = flow_with("p2");
  EXPECT_NE(&first, &second);
  EXPECT_NE(&second, &others);
  EXPECT_EQ(&flow_with("p0"), &first) << "who came early keeps its label";
  const std::size_t before = metrics.snapshot().size();
  for (int i = 3; i < 5000; ++i) {
    EXPECT_EQ(&flow_with(cat("p", i)), &others);
    meter.peer(cat("p", i)).notified(PeerMeter::Direction::sent, 1);
  }
  EXPECT_EQ(metrics.snapshot().size(), before);
  EXPECT_EQ(values_of(metrics)[R"(towpath_notifications_total{agent="decode",direction="sent",)"
                               R"(peer="other"})"],
            4997);
}

TEST(AgentMeterTest, memory_that_is_registered_is_reported_by_kind) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  const AgentMeter::RegistrationOf disk{"posix", MemoryKind::disk, 100};
  meter.registered(disk);
  meter.registered(disk);
  meter.deregistered(disk);
  meter.registered(disk, Code::exhausted);
  auto values = values_of(metrics);
  const std::string labels = R"({agent="decode",backend="posix",kind="disk"})";
  EXPECT_EQ(values["towpath_registrations_total" + labels], 2);
  EXPECT_EQ(values["towpath_deregistrations_total" + labels], 1);
  EXPECT_EQ(values["towpath_registered_bytes_total" + labels], 200);
  EXPECT_EQ(values["towpath_deregistered_bytes_total" + labels], 100);
  EXPECT_EQ(values["towpath_registered_bytes" + labels], 100);
  EXPECT_EQ(values[R"(towpath_registration_errors_total{agent="decode",backend="posix",)"
                   R"(kind="disk",status="exhausted"})"],
            1);
}

TEST(AgentMeterTest, bytes_that_two_backends_have_are_also_counted_once) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode"});
  meter.registered({"shm", MemoryKind::system, 100});
  meter.registered({"tcp", MemoryKind::system, 100, false});
  meter.deregistered({"shm", MemoryKind::system, 100, false});
  auto values = values_of(metrics);
  const std::string labels = R"({agent="decode",kind="system"})";
  EXPECT_EQ(values["towpath_memory_registered_bytes_total" + labels], 100);
  EXPECT_FALSE(values.contains("towpath_memory_deregistered_bytes_total" + labels));
  meter.deregistered({"tcp", MemoryKind::system, 100});
  EXPECT_EQ(values_of(metrics)["towpath_memory_deregistered_bytes_total" + labels], 100);
}

TEST(AgentMeterTest, names_with_any_bytes_become_printable_labels) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "a\xff"});
  meter.peer("b\n").notified(PeerMeter::Direction::received, 5);
  const Metric first = metrics.snapshot().front();
  EXPECT_EQ(first.labels.front(), (Label{"agent", "a\\xff"}));
  EXPECT_EQ(values_of(metrics)[R"(towpath_notification_bytes_total{agent="a\x5cxff",)"
                               R"(direction="received",peer="b\x5cx0a"})"],
            5);
}

TEST(AgentMeterTest, flight_recorder_hears_the_same) {
  std::vector<Line> lines(FlightRecorder::bytes_for(16) / sizeof(Line));
  const ByteSpan memory(lines.front().bytes, lines.size() * sizeof(Line));
  ManualClock clock;
  auto flight = FlightRecorder::format(memory, clock).value();
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode", .flight = &flight});
  meter.opened(77);
  meter.peer_met("prefill", 78);
  Flow& flow = meter.flow(kPull);
  const std::uint64_t ticket = flow.posted({.at = {5}, .bytes = 4096, .descriptors = 3});
  flow.ended({.ticket = ticket,
              .at = {9},
              .outcome = Outcome::failed,
              .code = Code::io_error,
              .moved_bytes = 10,
              .time = Duration(4)});
  meter.peer_lost("prefill", 78, Code::peer_lost);
  meter.closed(77);
  const FlightLog log = read_flight(memory).value();
  ASSERT_EQ(log.records.size(), 6U);
  const FlightRecord& posted = log.records[2];
  EXPECT_EQ(posted.what, static_cast<std::uint32_t>(FlightEvent::transfer_posted));
  EXPECT_EQ(posted.at.nanoseconds, 5);
  EXPECT_EQ(log.name(posted.who), "prefill");
  EXPECT_EQ(posted.args[0], 4096U);
  const FlightRecord& ended = log.records[3];
  EXPECT_EQ(ended.args[0], posted.ticket);
  EXPECT_EQ(ended.args[1], 10U);
  EXPECT_EQ(ended.args[2], 4U);
  const FlightFlow how = FlightFlow::unpacked(ended.args[3]);
  EXPECT_EQ(how.outcome, Outcome::failed);
  EXPECT_EQ(how.code, Code::io_error);
  EXPECT_EQ(log.name(how.backend), "shm");
  EXPECT_EQ(log.records[4].args[0], 78U);
  EXPECT_EQ(log.name(log.records[5].who), "decode");
}

TEST(AgentMeterTest, flow_and_snapshot_meet_from_many_threads) {
  Metrics metrics;
  AgentMeter meter(metrics, {.agent = "decode", .max_peers = 4});
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        // A flow is used by one thread at a time: each has a backend of its own.
        const std::string backend = cat("backend-", thread);
        for (int i = 0; i < 300; ++i) {
          Flow& flow = meter.flow({.backend = backend, .peer = cat("p", i % 9)});
          flow.posted({.bytes = 1});
          flow.ended({.posted_bytes = 1, .moved_bytes = 1});
          meter.peer(cat("p", i % 9)).notified(PeerMeter::Direction::sent, 1);
          if (i % 50 == 0) (void)metrics.snapshot();
        }
      });
  }
  std::int64_t bytes = 0;
  for (const auto& [name, value] : values_of(metrics)) {
    if (name.starts_with("towpath_transfer_bytes_total")) bytes += value;
  }
  EXPECT_EQ(bytes, 900);
}

TEST(FlightEventsTest, flow_survives_packing) {
  const FlightFlow flow{TransferOp::write,  MemoryKind::device, MemoryKind::block,
                        Outcome::peer_lost, Code::peer_lost,    513};
  EXPECT_EQ(FlightFlow::unpacked(flow.packed()), flow);
  (void)FlightFlow::unpacked(~0ULL);
  EXPECT_EQ(name_of(static_cast<FlightEvent>(0)), "unknown");
  for (std::uint32_t event = 1; event <= 11; ++event)
    EXPECT_NE(name_of(static_cast<FlightEvent>(event)), "unknown") << event;
}

}  // namespace
}  // namespace towpath::telemetry
