#include "tools/traces/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/memory_file_system.h>

namespace towpath::traces {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TraceReaderTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<TraceReader>> open(std::string_view text,
                                            std::optional<TraceFormat> format = std::nullopt) {
    auto file = files_.open("trace", {.writable = true, .create = true, .truncate = true});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    const ConstByteSpan bytes = std::as_bytes(std::span(text));
    EXPECT_TRUE(sys::write_exactly(**file, bytes, 0).ok());
    return TraceReader::open(files_, "trace", format);
  }

  /// All of it, or the fault that ended it.
  Result<std::vector<Request>> read(std::string_view text,
                                    std::optional<TraceFormat> format = std::nullopt) {
    TOWPATH_TRY(const auto reader, open(text, format));
    std::vector<Request> all;
    while (true) {
      TOWPATH_TRY(std::optional<Request> request, reader->next());
      if (!request) return all;
      all.push_back(*std::move(request));
    }
  }
  std::string fault_of(std::string_view text) {
    const auto all = read(text);
    EXPECT_EQ(all.code(), Code::corrupt) << text;
    return all.status().to_string();
  }

  sys::MemoryFileSystem files_;
};

TEST_F(TraceReaderTest, each_format_is_known_by_its_first_line) {
  const auto format_of_text = [&](std::string_view text) { return (*open(text))->format(); };
  EXPECT_EQ(format_of_text("\n {\"timestamp\": 1, \"input_length\": 2, \"hash_ids\": []}"),
            TraceFormat::mooncake);
  EXPECT_EQ(format_of_text("{\"chat_id\": 1, \"timestamp\": 1.5}"), TraceFormat::bailian);
  EXPECT_EQ(format_of_text("\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\n"),
            TraceFormat::azure);
  EXPECT_EQ(format_of_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"),
            TraceFormat::burstgpt);
  EXPECT_EQ(format_of_text(""), TraceFormat::mooncake);
  EXPECT_THAT(fault_of("\nname,age\n"),
              HasSubstr("line 2, column 1: no known format begins like 'name,age'"));
}

TEST_F(TraceReaderTest, bailian_reports_seconds_and_ids_of_16_tokens) {
  const auto all = read(
      R"({"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 40, )"
      R"("output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089, 1090, 13148]})"
      "\n"
      R"({"chat_id": 160, "parent_chat_id": 159, "timestamp": 62, "input_length": 1, "hash_ids": []})");
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->at(0), (Request{61114, 40, 132, {1089, 1090, 13148}}));
  EXPECT_EQ(all->at(1).timestamp_ms, 62000U);
  EXPECT_EQ(tokens_per_block(TraceFormat::bailian), 16U);
}

TEST_F(TraceReaderTest, azure_counts_from_its_first_request_and_shares_nothing) {
  const auto all = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-16 18:17:03.9799600,600,10\r\n"
      "2023-11-16 18:17:04.0319600,512,11\r\n"
      "2023-11-17 00:00:00+00:00,0,12");
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->at(0), (Request{0, 600, 10, {0, 1}}));
  EXPECT_EQ(all->at(1), (Request{52, 512, 11, {2}}));
  EXPECT_EQ(all->at(2), (Request{20576021, 0, 12, {}}));
}

TEST_F(TraceReaderTest, burstgpt_columns_are_found_by_title) {
  const auto all = read(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n"
      "5.25,77,1.5,\"ChatGPT\",472,18,490,Conversation log\n");
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_THAT(*all, ElementsAre(Request{5250, 472, 18, {0}}));
}

TEST_F(TraceReaderTest, a_fault_has_line_and_column_and_the_shape_of_a_line) {
  EXPECT_THAT(fault_of("Timestamp,Request tokens,Response tokens\n1,2,3\n\n1,x,3\n"),
              HasSubstr("trace, line 4, column 3: expected a whole number of tokens, not 'x'"));
  EXPECT_THAT(fault_of("Timestamp,Request tokens,Response tokens\n1,2\n"),
              HasSubstr("line 2, column 4: the line ends after 2 cells"));
  EXPECT_THAT(fault_of("Timestamp,Request tokens\n"), HasSubstr("titled 'Response tokens'"));
  EXPECT_THAT(fault_of("Timestamp,Request tokens,Response tokens\n-1,2,3\n"),
              HasSubstr("expected seconds, not '-1'"));
  EXPECT_THAT(fault_of("Timestamp,Request tokens,Response tokens\n1,99999999999,3\n"),
              HasSubstr("a prompt of more than"));
  EXPECT_THAT(fault_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-30 00:00:00,1,1\n"),
              HasSubstr("expected a time such as"));
  EXPECT_THAT(fault_of("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-02-02 00:00:01,1,1\n"
                       "2023-02-02 00:00:00,1,1\n"),
              HasSubstr("line 3, column 1: a time before that of the first request"));
  EXPECT_THAT(fault_of("{\"chat_id\": 1, \"timestamp\": 1e3}"), HasSubstr("column 30"));
  EXPECT_THAT(fault_of("{\"chat_id\": 1, \"timestamp\": 1.2.3}"), HasSubstr("expected seconds"));
}

TEST_F(TraceReaderTest, who_says_the_format_is_believed) {
  const auto all =
      read(R"({"timestamp": 2.5, "input_length": 1, "hash_ids": [4]})", TraceFormat::bailian);
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->at(0).timestamp_ms, 2500U);
  EXPECT_EQ(trace_format_named("azure").value(), TraceFormat::azure);
  EXPECT_THAT(trace_format_named("csv").status().to_string(), HasSubstr("burstgpt"));
}

TEST_F(TraceReaderTest, seconds_are_cut_to_milliseconds_and_never_wrap) {
  EXPECT_EQ(milliseconds_of("61.1149"), 61114U);
  EXPECT_EQ(milliseconds_of("7."), 7000U);
  EXPECT_EQ(milliseconds_of("0.05"), 50U);
  EXPECT_EQ(milliseconds_of("18446744073709551.615"), UINT64_MAX);
  for (const char* const none :
       {"", ".", ".5", "1e3", "-1", "1.2.3", " 1", "18446744073709551.616"})
    EXPECT_FALSE(milliseconds_of(none)) << none;
}

}  // namespace
}  // namespace towpath::traces
