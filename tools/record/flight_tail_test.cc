#include "tools/record/flight_tail.h"

#include <gtest/gtest.h>

#include <towpath/telemetry/flight_recorder.h>

namespace towpath::tools {
namespace {

using telemetry::FlightEvent;
using telemetry::FlightFlow;
using telemetry::FlightLog;
using telemetry::FlightRecord;

constexpr Duration kBegan(1000);

/// A recorder over time: what it holds is asked for by tickets.
class Ring {
 public:
  std::uint64_t post(std::int64_t at, std::uint64_t bytes) {
    return add(at, FlightEvent::transfer_posted, {bytes, 4, packed(Outcome::none), 2});
  }
  void end(std::int64_t at, std::uint64_t ticket, Outcome outcome = Outcome::done) {
    add(at, FlightEvent::transfer_ended, {ticket, 0, 70, packed(outcome)});
  }
  std::uint64_t add(std::int64_t at, FlightEvent what, FlightRecord::Args args = {}) {
    records_.push_back({.ticket = records_.size(),
                        .at = {at},
                        .what = static_cast<std::uint32_t>(what),
                        .who = 2,
                        .args = args});
    return records_.back().ticket;
  }
  /// From `oldest` on, but for one that is being written.
  FlightLog log(std::uint64_t oldest = 0, std::uint64_t torn = UINT64_MAX) const {
    FlightLog log{.started_since_epoch = kBegan, .capacity = 64, .recorded = records_.size()};
    log.names = {"shm", "decode 0"};
    for (const FlightRecord& record : records_)
      if (record.ticket >= oldest && record.ticket != torn) log.records.push_back(record);
    return log;
  }

 private:
  static std::uint64_t packed(Outcome outcome) {
    return FlightFlow{.op = TransferOp::write, .outcome = outcome, .backend = 1}.packed();
  }
  std::vector<FlightRecord> records_;
};

TEST(FlightTailTest, transfer_is_reported_once_and_when_it_has_ended) {
  Ring ring;
  FlightTail tail("prefill-0", kBegan);
  const auto ticket = ring.post(40, 4096);
  EXPECT_TRUE(tail.take(ring.log()).empty());
  EXPECT_EQ(tail.rest().size(), 1U);
  ring.end(110, ticket, Outcome::timed_out);
  const RecordedTransfer reported{.at = Duration(40),
                                  .node = "prefill-0",
                                  .peer = "decode%200",
                                  .backend = "shm",
                                  .op = TransferOp::write,
                                  .bytes = 4096,
                                  .descriptors = 4,
                                  .runs = 2,
                                  .took = Duration(70),
                                  .outcome = Outcome::timed_out};
  EXPECT_EQ(tail.take(ring.log()), std::vector{reported});
  EXPECT_TRUE(tail.take(ring.log()).empty());
  EXPECT_TRUE(tail.rest().empty());
  EXPECT_EQ(tail.missed(), 0U);
  EXPECT_EQ(parse_recorded(format_recorded(reported)).value(), reported);
}

TEST(FlightTailTest, record_that_was_being_written_is_seen_at_the_next_look) {
  Ring ring;
  FlightTail tail("n", kBegan);
  const auto ticket = ring.post(1, 8);
  ring.end(2, ticket);
  EXPECT_TRUE(tail.take(ring.log(0, ticket)).empty()) << "its post is being written";
  const auto next = ring.post(3, 16);
  ring.end(4, next);
  EXPECT_EQ(tail.take(ring.log(0, 3)).size(), 1U) << "the first; the second's end is";
  EXPECT_EQ(tail.take(ring.log()).size(), 1U);
  EXPECT_TRUE(tail.rest().empty());
}

TEST(FlightTailTest, what_was_overwritten_between_two_looks_is_counted) {
  Ring ring;
  FlightTail tail("n", kBegan);
  ring.end(1, ring.post(1, 8));
  EXPECT_EQ(tail.take(ring.log()).size(), 1U);
  for (int i = 0; i < 5; ++i) ring.end(2, ring.post(2, 8));
  EXPECT_EQ(tail.take(ring.log(6)).size(), 3U);
  EXPECT_EQ(tail.missed(), 4U);
  EXPECT_FALSE(tail.closed());
  ring.add(3, FlightEvent::agent_closed);
  (void)tail.take(ring.log(6));
  EXPECT_TRUE(tail.closed());
}

TEST(FlightTailTest, transfers_whose_ends_were_overwritten_do_not_pile_up) {
  Ring ring;
  FlightTail tail("n", kBegan);
  for (std::size_t i = 0; i < FlightTail::kMostOpen + 3; ++i) ring.post(static_cast<int>(i), 8);
  const auto given_up = tail.take(ring.log());
  ASSERT_EQ(given_up.size(), 3U);
  EXPECT_EQ(given_up[0].at, Duration(0)) << "the oldest first";
  EXPECT_EQ(given_up[0].outcome, Outcome::none) << "nobody knows how they ended";
  EXPECT_EQ(tail.rest().size(), FlightTail::kMostOpen);
}

}  // namespace
}  // namespace towpath::tools
