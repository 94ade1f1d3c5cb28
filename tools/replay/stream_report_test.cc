#include "tools/replay/stream_report.h"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/bytes.h>

#include "tools/replay/report.h"

namespace towpath::tools::replay {
namespace {

/// The row of a report that has this word.
std::string row_of(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST(StreamReportTest, what_never_moved_has_no_times) {
  for (const Cell& cell : with_times({}, Spread())) EXPECT_EQ(cell.text, "-");
  Spread one;
  one.add(std::chrono::nanoseconds(7));
  for (const Cell& cell : with_times({}, one)) EXPECT_EQ(cell.text, "7 ns");
}

TEST(StreamReportTest, what_was_recorded_has_the_rate_of_what_had_ended) {
  const RecordedTransfer ended{.node = "decode",
                               .peer = "prefill",
                               .op = TransferOp::read,
                               .bytes = kGiB,
                               .descriptors = 1,
                               .runs = 1,
                               .took = std::chrono::seconds(1),
                               .outcome = Outcome::done};
  RecordedTransfer unended = ended;
  unended.at = std::chrono::milliseconds(500);
  unended.took = Duration(0);
  const Stream stream = plan_stream(std::vector{ended, unended}).value();
  EXPECT_EQ(stream.length, Duration(std::chrono::seconds(1)))
      << "to the end of the first, as ours is";
  StreamOutcome outcome;
  outcome.seconds = 4;
  for (const Stream::Move& move : stream.moves) {
    outcome.reads.moved.add(move.bytes(), std::chrono::seconds(2));
    outcome.reads.note_recorded(move);
  }
  const std::string row =
      row_of(stream_text(Options(), stream, outcome, Colours::no), "  recorded ");
  const std::size_t while_moving = row.find("1.07 GB/s");
  ASSERT_NE(while_moving, std::string::npos) << row;
  EXPECT_NE(row.find("1.07 GB/s", while_moving + 1), std::string::npos) << "whole run: " << row;
}

}  // namespace
}  // namespace towpath::tools::replay
