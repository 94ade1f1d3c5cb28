#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/flight_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::standard {
namespace {

class FlightFileTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<FlightFile>> open(FlightFileOptions options) {
    if (options.directory.empty()) options.directory = directory_.path() + "/flights";
    return FlightFile::open(files_, clock_, options);
  }
  Result<telemetry::FlightLog> read(const std::string& path) {
    TOWPATH_TRY(const auto file, files_.open(path, {}));
    TOWPATH_TRY(const std::uint64_t size, file->size());
    Bytes copy(size);
    TOWPATH_TRY(sys::read_exactly(*file, copy, 0));
    return telemetry::read_flight(copy);
  }

  sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  sys::SystemFileSystem files_;
  ManualClock clock_;
};

TEST_F(FlightFileTest, what_was_recorded_is_in_the_file_at_once_and_afterwards) {
  auto flight = open({.agent = "decode-0", .process = 7, .records = 4}).value();
  const std::string path = flight->path();
  EXPECT_EQ(path, directory_.path() + "/flights/decode-0.7.flight");
  flight->recorder().record(5, {1, 2, 3, 4});
  EXPECT_EQ(read(path).value().records.size(), 1U);
  flight.reset();
  const auto log = read(path).value();
  EXPECT_EQ(log.process, 7U);
  EXPECT_EQ(log.capacity, 4U);
  EXPECT_EQ(log.records.size(), 1U);
}

TEST_F(FlightFileTest, names_with_any_bytes_stay_in_the_directory) {
  for (const std::string& agent : {std::string("../../etc/x"), std::string("a\0b", 3),
                                   std::string(300, '%'), std::string(300, '&')}) {
    const auto flight = open({.agent = agent, .records = 1}).value();
    EXPECT_EQ(flight->path().substr(0, flight->path().rfind('/')), directory_.path() + "/flights");
  }
  EXPECT_EQ(files_.list(directory_.path() + "/flights").value().size(), 4U);
}

TEST_F(FlightFileTest, only_the_newest_of_an_agent_are_kept) {
  ASSERT_TRUE(open({.agent = "a.b", .process = 1, .records = 1}).ok()) << "another agent's";
  for (std::uint64_t process = 1; process <= 6; ++process) {
    clock_.advance(Duration(5));
    ASSERT_TRUE(open({.agent = "a", .process = process, .records = 1, .keep = 3}).ok());
  }
  EXPECT_EQ(files_.list(directory_.path() + "/flights").value(),
            (std::vector<std::string>{"a.4.flight", "a.5.flight", "a.6.flight", "a.b.1.flight"}));
}

TEST_F(FlightFileTest, what_a_process_of_the_same_number_did_last_stays) {
  auto flight = open({.agent = "a", .process = 1, .records = 4}).value();
  const std::string crashed = flight->path();
  flight->recorder().record(1);
  flight.reset();
  const auto again = open({.agent = "a", .process = 1, .records = 4}).value();
  EXPECT_EQ(again->path(), directory_.path() + "/flights/a.1-2.flight");
  EXPECT_EQ(read(crashed).value().records.size(), 1U);
}

TEST_F(FlightFileTest, those_that_are_still_written_to_are_kept_beyond_the_newest) {
  const auto names = [&] { return files_.list(directory_.path() + "/flights").value(); };
  std::vector<std::unique_ptr<FlightFile>> live;
  for (int i = 0; i < 3; ++i) {
    clock_.advance(Duration(5));
    live.push_back(open({.agent = "a", .process = 1, .records = 1, .keep = 1}).value());
  }
  const std::vector<std::string> all{"a.1-2.flight", "a.1-3.flight", "a.1.flight"};
  EXPECT_EQ(names(), all);
  live.clear();
  const auto last = open({.agent = "a", .process = 1, .records = 1, .keep = 1}).value();
  EXPECT_EQ(names(), (std::vector<std::string>{"a.1.flight"})) << "the new one";
}

TEST_F(FlightFileTest, what_a_crash_left_half_made_is_removed_and_what_is_being_made_is_not) {
  const std::string folder = directory_.path() + "/flights";
  ASSERT_TRUE(files_.make_directories(folder).ok());
  const auto begin = [&](const char* name) {
    return files_.open(folder + "/" + name, {.writable = true, .create = true}).value();
  };
  (void)begin("a.5.flight");
  ASSERT_TRUE(begin("a.1.flight")->preallocate(telemetry::FlightRecorder::bytes_for(1)).ok());
  const auto being_made = begin("a.6.flight");
  ASSERT_TRUE(being_made->mark_in_use().ok());
  const auto flight = open({.agent = "a", .process = 1, .records = 1}).value();
  EXPECT_EQ(files_.list(folder).value(), (std::vector<std::string>{"a.1.flight", "a.6.flight"}));
  EXPECT_TRUE(read(flight->path()).ok()) << "in the place of one that went";
}

TEST_F(FlightFileTest, a_fifo_or_a_link_with_a_recorder_s_name_holds_nobody_up) {
  const std::string folder = directory_.path() + "/flights";
  ASSERT_TRUE(files_.make_directories(folder).ok());
  ASSERT_EQ(::mkfifo((folder + "/a.5.flight").c_str(), 0666), 0);
  ASSERT_EQ(::symlink("a.5.flight", (folder + "/a.6.flight").c_str()), 0);
  ASSERT_TRUE(open({.agent = "a", .process = 1, .records = 1, .keep = 1}).ok());
  EXPECT_EQ(files_.list(folder).value(),
            (std::vector<std::string>{"a.1.flight", "a.5.flight", "a.6.flight"}));
}

TEST_F(FlightFileTest, names_that_are_no_recorder_s_are_not_removed) {
  const std::string folder = directory_.path() + "/flights";
  for (const char* name : {"a.-.flight", "a.1-.flight", "a.-1.flight", "a.1-2-3.flight"}) {
    const std::string ended = open({.agent = "a", .process = 2, .records = 1}).value()->path();
    ASSERT_TRUE(files_.rename({.source = ended, .target = folder + "/" + name}).ok());
  }
  ASSERT_TRUE(open({.agent = "a", .process = 1, .records = 1, .keep = 1}).ok());
  EXPECT_EQ(files_.list(folder).value().size(), 5U);
}

TEST_F(FlightFileTest, one_that_is_still_written_is_not_disturbed_by_its_namesake) {
  const auto first = open({.agent = "a", .process = 1, .records = 4}).value();
  const auto second = open({.agent = "a", .process = 1, .records = 1}).value();
  first->recorder().record(1);
  EXPECT_TRUE(read(second->path()).value().records.empty());
  EXPECT_EQ(first->recorder().dump().size(), 1U);
}

TEST_F(FlightFileTest, a_writer_lives_as_long_as_its_file_is_open_whatever_its_number) {
  constexpr std::uint64_t kNone = UINT64_MAX;  // and process 1 there always is
  for (const std::uint64_t process : {std::uint64_t{1}, kNone}) {
    auto flight = open({.agent = "a", .process = process, .records = 1}).value();
    const auto file = files_.open(flight->path(), {}).value();
    EXPECT_TRUE(flight_writer_lives(*file)) << process;
    flight.reset();
    EXPECT_FALSE(flight_writer_lives(*file)) << process;
  }
}

TEST_F(FlightFileTest, of_a_ring_without_a_mark_the_number_of_the_process_says) {
  const std::string path = directory_.file("older");
  Bytes ring(telemetry::FlightRecorder::bytes_for(1) + 64);
  for (const std::uint64_t process : {0U, 1U}) {
    const ByteSpan aligned = ByteSpan(ring).subspan(64 - address_of(ring.data()) % 64);
    ASSERT_TRUE(telemetry::FlightRecorder::format(aligned, clock_, {.process = process}).ok());
    const auto file = files_.open(path, {.writable = true, .create = true}).value();
    ASSERT_TRUE(sys::write_exactly(*file, aligned, 0).ok());
    EXPECT_EQ(flight_writer_lives(*file), process == 1);
  }
}

TEST_F(FlightFileTest, what_cannot_be_made_says_why) {
  EXPECT_EQ(open({.agent = "a", .records = 0}).code(), Code::invalid_argument);
  EXPECT_EQ(open({.agent = "a", .records = kMostFlightRecords + 1}).code(), Code::invalid_argument);
  EXPECT_FALSE(open({.directory = "/proc/none", .agent = "a"}).ok());
}

}  // namespace
}  // namespace towpath::standard
