#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/telemetry/flight_format.h>
#include <towpath/telemetry/flight_log.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {
namespace {

// Memory as a page would give it.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : lines_((bytes + 63) / 64), bytes_(bytes) {}
  ByteSpan span() { return {lines_.front().bytes, bytes_}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
  std::size_t bytes_;
};

void poke(ByteSpan memory, std::size_t offset, std::uint64_t word) {
  std::memcpy(memory.data() + offset, &word, sizeof word);
}

TEST(FlightRecorderTest, gives_back_what_was_recorded_in_order) {
  Memory memory(FlightRecorder::bytes_for(8));
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  recorder.record(7, {1, 2, 3}, 5);
  clock.advance(Duration(9));
  recorder.record(8);
  EXPECT_EQ(recorder.capacity(), 8U);
  EXPECT_EQ(recorder.dump(), (std::vector<FlightRecord>{{0, Instant{1}, 7, 5, {1, 2, 3}},
                                                        {1, Instant{10}, 8, 0, {}}}));
}

TEST(FlightRecorderTest, keeps_the_newest_when_full) {
  Memory memory(FlightRecorder::bytes_for(4) + 63);
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  ASSERT_EQ(recorder.capacity(), 4U);
  for (std::uint32_t what = 0; what < 11; ++what) recorder.record(what);
  const auto records = recorder.dump();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records.front().what, 7U);
  EXPECT_EQ(records.back().what, 10U);
  EXPECT_EQ(recorder.dropped(), 0U);
}

TEST(FlightRecorderTest, another_recorder_reads_the_same_ring) {
  Memory memory(FlightRecorder::bytes_for(4));
  ManualClock clock;
  auto writer = FlightRecorder::format(memory.span(), clock).value();
  writer.record(3);
  auto reader = FlightRecorder::attach(memory.span(), clock).value();
  EXPECT_EQ(reader.dump(), writer.dump());
  reader.record(4);
  EXPECT_EQ(writer.dump().size(), 2U);
}

TEST(FlightRecorderTest, record_that_was_never_finished_is_not_believed) {
  Memory memory(FlightRecorder::bytes_for(2));
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  recorder.record(1);
  recorder.record(2);
  // As a writer leaves it that is killed while it writes ticket 2 into slot 0.
  poke(memory.span(), FlightRecorder::kHeaderBytes, 2 * 2 + 1);
  ASSERT_EQ(recorder.dump().size(), 1U);
  EXPECT_EQ(recorder.dump()[0].what, 2U);
  recorder.record(3);
  EXPECT_EQ(recorder.dropped(), 1U) << "the slot of the dead writer is not written to";
  recorder.record(4);
  EXPECT_EQ(recorder.dump().back().what, 4U) << "the other slots live on";
}

TEST(FlightRecorderTest, overtaken_writer_does_not_replace_a_newer_record) {
  Memory memory(FlightRecorder::bytes_for(2));
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  const auto words = flight::words_of(8, {.what = 5});  // ticket 8 is there already
  std::memcpy(memory.span().data() + FlightRecorder::kHeaderBytes, words.data(), sizeof words);
  EXPECT_EQ(recorder.record(1), 0U) << "ticket 0 comes late";
  EXPECT_EQ(recorder.dropped(), 1U);
  ASSERT_EQ(recorder.dump().size(), 1U);
  EXPECT_EQ(recorder.dump()[0].ticket, 8U);
}

TEST(FlightRecorderTest, refuses_memory_that_cannot_be_a_ring) {
  Memory memory(FlightRecorder::bytes_for(2));
  ManualClock clock;
  const ByteSpan span = memory.span();
  EXPECT_EQ(FlightRecorder::format(span.subspan(8), clock).code(), Code::invalid_argument);
  EXPECT_EQ(FlightRecorder::format(span.first(FlightRecorder::bytes_for(1) - 1), clock).code(),
            Code::invalid_argument);
  EXPECT_EQ(FlightRecorder::format({}, clock).code(), Code::invalid_argument);
  EXPECT_EQ(FlightRecorder::attach(span, clock).code(), Code::corrupt) << "not formatted";
  ASSERT_TRUE(FlightRecorder::format(span, clock).ok());
  poke(span, 8, 99);
  EXPECT_EQ(FlightRecorder::attach(span, clock).code(), Code::unsupported);
  poke(span, 8, 2);
  for (std::uint64_t capacity : {0ULL, 3ULL, ~0ULL}) {
    poke(span, 16, capacity);
    EXPECT_EQ(FlightRecorder::attach(span, clock).code(), Code::corrupt) << capacity;
  }
}

TEST(FlightRecorderTest, names_beyond_the_table_have_no_number) {
  Memory memory(FlightRecorder::bytes_for(1));
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  for (std::uint32_t i = 1; i <= FlightRecorder::kNames; ++i)
    ASSERT_EQ(recorder.add_name("peer"), i);
  EXPECT_EQ(recorder.add_name("one more"), 0U);
}

// Every writer records words that depend on one another; a mixture would show.
TEST(FlightRecorderTest, reader_never_sees_a_mixture_of_two_records) {
  Memory memory(FlightRecorder::bytes_for(8));
  ManualClock clock;
  auto recorder = FlightRecorder::format(memory.span(), clock).value();
  std::atomic<bool> stop{false};
  std::vector<std::jthread> writers;
  for (std::uint32_t who = 1; who <= 3; ++who)
    writers.emplace_back([&, who] {
      for (std::uint64_t i = 1; !stop.load(); ++i)
        recorder.record(static_cast<std::uint32_t>(i), {i, i * who, ~i, i + who}, who);
    });
  std::uint64_t seen = 0;
  while (seen < 5000) {
    for (const auto& record : recorder.dump()) {
      const std::uint64_t i = record.args[0];
      ASSERT_EQ(record.what, static_cast<std::uint32_t>(i));
      ASSERT_EQ(record.args, (FlightRecord::Args{i, i * record.who, ~i, i + record.who}));
      ++seen;
    }
  }
  stop = true;
}

}  // namespace
}  // namespace towpath::telemetry
