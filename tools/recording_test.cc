#include "tools/recording.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::tools {
namespace {

using ::testing::HasSubstr;

const RecordedTransfer kOnePull{.at = Duration(5),
                                .node = "decode%200",
                                .peer = "prefill",
                                .backend = "shm",
                                .op = TransferOp::read,
                                .local = MemoryKind::system,
                                .remote = MemoryKind::disk,
                                .bytes = 65536,
                                .descriptors = 16,
                                .runs = 4,
                                .took = Duration(900),
                                .outcome = Outcome::done};

class RecordingFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  const sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  const std::string path_ = cat(directory_.path(), "/stream.csv");
};

TEST(RecordingTest, line_is_read_as_it_was_written) {
  EXPECT_EQ(format_recorded(kOnePull),
            "5,decode%200,prefill,shm,read,system,disk,65536,16,4,900,done");
  EXPECT_EQ(parse_recorded(format_recorded(kOnePull)).value(), kOnePull);
  EXPECT_EQ(parse_recorded(format_recorded(kOnePull) + "\r").value(), kOnePull);
}

TEST(RecordingTest, fault_is_named_with_its_column) {
  const auto why = [](const char* line) {
    return std::string(parse_recorded(line).status().message());
  };
  EXPECT_THAT(why(""), HasSubstr("column 1: expected a whole number"));
  EXPECT_THAT(why("-5,a,b,shm,read,system,system,1,1,1,1,done"), HasSubstr("column 1"));
  EXPECT_THAT(why("9223372036854775808,a,b,,read,system,system,1,1,1,1,done"),
              HasSubstr("column 1"));
  EXPECT_THAT(why("5,a b,b,shm,read,system,system,1,1,1,1,done"), HasSubstr("column 2"));
  EXPECT_THAT(why("5,a,,shm,read,system,system,1,1,1,1,done"), HasSubstr("column 3"));
  EXPECT_THAT(why("5,a,b,shm,steal,system,system,1,1,1,1,done"), HasSubstr("column 5"));
  EXPECT_THAT(why("5,a,b,shm,READ,system,system,1,1,1,1,done"), HasSubstr("column 5"));
  EXPECT_THAT(why("5,a,b,shm,read,attic,system,1,1,1,1,done"), HasSubstr("column 6"));
  EXPECT_THAT(why("5,a,b,shm,read,system,system,1x,1,1,1,done"), HasSubstr("column 8"));
  EXPECT_THAT(why("5,a,b,shm,read,system,system,1,1,1,1"), HasSubstr("column 12"));
  EXPECT_THAT(why("5,a,b,shm,read,system,system,1,1,1,1,done,"), HasSubstr("something follows"));
}

TEST_F(RecordingFileTest, lines_are_read_up_to_the_limit) {
  RecordedTransfer push = kOnePull;
  push.op = TransferOp::write;
  write(cat(kRecordingTitles, "\r\n", format_recorded(kOnePull), "\n\n", format_recorded(push)));
  EXPECT_TRUE(is_recording(path_));
  EXPECT_EQ(read_recording(path_).value(), (std::vector{kOnePull, push}));
  EXPECT_EQ(read_recording(path_, 1).value(), std::vector{kOnePull});
}

TEST_F(RecordingFileTest, what_is_none_is_refused_by_file_and_line) {
  EXPECT_FALSE(is_recording(path_));
  EXPECT_EQ(read_recording(path_).code(), Code::not_found);
  write(R"({"timestamp": 0, "hash_ids": []})");
  EXPECT_FALSE(is_recording(path_));
  EXPECT_EQ(read_recording(path_).code(), Code::corrupt);
  write(cat(kRecordingTitles, "\n5,a,b\n"));
  EXPECT_THAT(read_recording(path_).status().message(), HasSubstr("line 2, column 5"));
  write(cat(kRecordingTitles, "\n", std::string(200'000, '5'), "\n"));
  EXPECT_THAT(read_recording(path_).status().message(), HasSubstr("line 2 is longer than 4096"));
}

}  // namespace
}  // namespace towpath::tools
