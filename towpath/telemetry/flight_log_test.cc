#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/telemetry/flight_format.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::telemetry {
namespace {

// A ring and its recorder.
class Ring {
 public:
  explicit Ring(std::size_t records) : lines_(FlightRecorder::bytes_for(records) / 64) {}
  ByteSpan bytes() { return {lines_.front().bytes, lines_.size() * 64}; }
  Bytes copy() { return {bytes().begin(), bytes().end()}; }
  FlightRecorder recorder() {
    return FlightRecorder::format(bytes(), clock, {.process = 42}).value();
  }

  ManualClock clock;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

void poke(Bytes& copy, std::size_t offset, std::uint64_t word) {
  std::memcpy(copy.data() + offset, &word, sizeof word);
}

TEST(FlightLogTest, copy_says_what_the_recorder_was_reported) {
  Ring ring(4);
  auto recorder = ring.recorder();
  const std::uint32_t who = recorder.add_name("decode-0");
  ring.clock.advance(Duration(9));
  for (std::uint32_t what = 1; what <= 6; ++what) recorder.record(what, {what, 2, 3, 4}, who);
  const FlightLog log = read_flight(ring.copy()).value();
  EXPECT_EQ(log.process, 42U);
  EXPECT_EQ(log.capacity, 4U);
  EXPECT_EQ(log.recorded, 6U);
  EXPECT_EQ(log.dropped + log.torn, 0U);
  EXPECT_EQ(log.records, recorder.dump());
  ASSERT_EQ(log.records.size(), 4U);
  EXPECT_EQ(log.records.front().what, 3U);
  EXPECT_EQ(log.name(log.records.front().who), "decode-0");
  EXPECT_EQ(log.since_epoch(log.records.front().at), Duration(10));
}

TEST(FlightLogTest, name_of_nobody_is_empty_and_long_names_are_cut) {
  Ring ring(1);
  auto recorder = ring.recorder();
  recorder.add_name(std::string(200, 'x'));
  const FlightLog log = read_flight(ring.copy()).value();
  EXPECT_EQ(log.name(0), "");
  EXPECT_EQ(log.name(1), std::string(FlightRecorder::kMaxNameBytes, 'x'));
  EXPECT_EQ(log.name(2), "");
  EXPECT_EQ(log.name(UINT64_MAX), "");
}

TEST(FlightLogTest, record_with_any_byte_changed_is_skipped_and_counted) {
  Ring ring(2);
  auto recorder = ring.recorder();
  recorder.record(1, {5, 6, 7, 8}, 9);
  recorder.record(2);
  const Bytes whole = ring.copy();
  for (std::size_t at = 0; at < FlightRecorder::kSlotBytes; ++at) {
    Bytes copy = whole;
    copy[FlightRecorder::kHeaderBytes + at] ^= std::byte{0x10};
    const FlightLog log = read_flight(copy).value();
    EXPECT_EQ(log.torn, 1U) << at;
    ASSERT_EQ(log.records.size(), 1U) << at;
    EXPECT_EQ(log.records[0].what, 2U) << at;
  }
}

TEST(FlightLogTest, record_in_the_slot_of_another_is_not_believed) {
  Ring ring(2);
  ring.recorder();
  Bytes copy = ring.copy();
  const auto words = flight::words_of(3, {.what = 1});  // belongs into slot 1
  std::memcpy(copy.data() + FlightRecorder::kHeaderBytes, words.data(), sizeof words);
  const FlightLog log = read_flight(copy).value();
  EXPECT_TRUE(log.records.empty());
  EXPECT_EQ(log.torn, 1U);
}

TEST(FlightLogTest, what_is_no_whole_ring_is_refused) {
  Ring ring(2);
  ring.recorder();
  const Bytes whole = ring.copy();
  EXPECT_EQ(read_flight({}).code(), Code::corrupt);
  EXPECT_EQ(read_flight(ConstByteSpan(whole).first(whole.size() - 1)).code(), Code::corrupt);
  for (const auto& [offset, word, code] :
       {std::tuple(0, ~0ULL, Code::corrupt), std::tuple(8, 99ULL, Code::unsupported),
        std::tuple(16, 0ULL, Code::corrupt), std::tuple(16, 3ULL, Code::corrupt),
        std::tuple(16, ~0ULL, Code::corrupt), std::tuple(24, 255ULL, Code::corrupt)}) {
    Bytes copy = whole;
    poke(copy, static_cast<std::size_t>(offset), word);
    EXPECT_EQ(read_flight(copy).code(), code) << offset << " " << word;
  }
}

TEST(FlightLogTest, counts_that_lie_lead_nowhere) {
  Ring ring(1);
  ring.recorder();
  Bytes copy = ring.copy();
  for (const std::size_t word : {5, 6, 8, 9, 10}) poke(copy, word * 8, ~0ULL);
  poke(copy, flight::kNamesOffset, ~0ULL);  // the length of the first name
  const FlightLog log = read_flight(copy).value();
  EXPECT_EQ(log.names.size(), FlightRecorder::kNames);
  EXPECT_EQ(log.names[0].size(), FlightRecorder::kMaxNameBytes);
  (void)log.since_epoch({INT64_MIN});
}

}  // namespace
}  // namespace towpath::telemetry
