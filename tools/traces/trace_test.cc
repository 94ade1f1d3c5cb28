#include "tools/traces/trace.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/system_file.h>

#include "tools/traces/model.h"
#include "tools/traces/trace_generator.h"
#include "tools/traces/trace_reader.h"
#include "tools/traces/trace_stats.h"

namespace towpath::traces {
namespace {

using ::testing::HasSubstr;

TEST(TraceTest, reads_a_line_and_writes_it_again) {
  const auto request = parse_request(
      R"({"timestamp": 27, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 46]})");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_EQ(request->timestamp_ms, 27U);
  EXPECT_EQ(request->input_length, 6758U);
  EXPECT_EQ(request->output_length, 500U);
  EXPECT_THAT(request->hash_ids, ::testing::ElementsAre(0U, 1U, 46U));
  EXPECT_EQ(parse_request(format_request(*request)).value(), *request);
}

TEST(TraceTest, skips_what_it_does_not_know) {
  const auto request = parse_request(
      R"( {"chat_id": "a\"b", "turn": -1.5e3, "type": null, "x": {"y": [[], {}, true]}, )"
      R"("timestamp":27000.0,"input_length":1,"hash_ids":[]} )");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_EQ(request->timestamp_ms, 27000U);
}

TEST(TraceTest, names_the_column_of_each_fault) {
  const auto fault = [](std::string_view line) {
    const auto request = parse_request(line);
    EXPECT_EQ(request.code(), Code::corrupt) << line;
    return std::string(request.status().message());
  };
  EXPECT_THAT(fault(""), HasSubstr("column 1: expected '{'"));
  EXPECT_THAT(fault("{}"), HasSubstr("missing"));
  EXPECT_THAT(fault(R"({"timestamp": -1})"), HasSubstr("column 15"));
  EXPECT_THAT(fault(R"({"timestamp": 1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(fault(R"({"timestamp": 99999999999999999999})"), HasSubstr("64 bits"));
  EXPECT_THAT(fault(R"({"timestamp": 1, "timestamp": 2})"), HasSubstr("twice"));
  EXPECT_THAT(fault(R"({"timestamp: 1})"), HasSubstr("no end"));
  EXPECT_THAT(fault(R"({"hash_ids": [1, ]})"), HasSubstr("expected a whole number"));
  EXPECT_THAT(fault(std::string(R"({"x": )") + std::string(100, '[')),
              HasSubstr("nested too deep"));
  EXPECT_THAT(fault(R"({"timestamp": 1, "input_length": 1, "hash_ids": []} x)"),
              HasSubstr("follows"));
  std::string many = R"({"hash_ids": [0)";
  for (std::size_t i = 0; i < kMaxHashIds; ++i) many.append(",1");
  EXPECT_THAT(fault(many), HasSubstr("more than"));
}

TEST(TraceTest, every_prefix_of_a_line_is_a_fault) {
  const std::string line = format_request({1, 2, 3, {4, 5}});
  for (std::size_t length = 0; length < line.size(); ++length)
    EXPECT_FALSE(parse_request(std::string_view(line).substr(0, length)).ok()) << length;
}

TEST(TraceTest, generated_traces_repeat_and_have_the_published_shape) {
  TraceGenerator once({.requests = 8000, .seed = 5});
  TraceGenerator again({.requests = 8000, .seed = 5});
  TraceStats stats;
  while (true) {
    const auto request = *once.next();
    ASSERT_EQ(request, *again.next());
    if (!request) break;
    ASSERT_EQ(parse_request(format_request(*request)).value(), *request);
    stats.add(*request);
  }
  const auto shape = stats.summary();
  EXPECT_EQ(shape.requests, 8000U);
  EXPECT_NEAR(shape.infinite_cache_hit_ratio, 0.3664, 0.08);
  EXPECT_NEAR(static_cast<double>(shape.prompt_p50), 6909, 2500);
  EXPECT_NEAR(shape.prompt_mean, 12035, 4000);
  EXPECT_NEAR(static_cast<double>(shape.prompt_p99), 85401, 25000);
  EXPECT_NEAR(shape.output_mean, 343, 20);
  EXPECT_LE(shape.max_arrivals_at_once, 28U);
  EXPECT_GT(shape.max_arrivals_at_once, 15U);
}

TEST(TraceTest, the_real_trace_has_the_figures_that_were_published_of_it) {
  const std::string path = TOWPATH_SHARED_TRACES "/mooncake-conversation.jsonl";
  if (::access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no trace beside the checkout: " << path;
  sys::SystemFileSystem files;
  auto reader = TraceReader::open(files, path);
  ASSERT_TRUE(reader.ok()) << reader.status().to_string();
  TraceStats stats;
  while (true) {
    const auto request = (*reader)->next();
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    if (!*request) break;
    stats.add(**request);
  }
  const auto found = stats.summary();
  EXPECT_EQ(found.requests, 12031U);
  EXPECT_EQ(found.block_references, 288500U);
  EXPECT_EQ(found.distinct_blocks, 182790U);
  EXPECT_NEAR(found.infinite_cache_hit_ratio, 0.3664, 0.0001);
  EXPECT_EQ(found.prompt_p50, 6909U);
  EXPECT_EQ(found.prompt_max, 126195U);
  EXPECT_EQ(found.blocks_p50, 14U);
  EXPECT_EQ(found.blocks_max, 247U);
  EXPECT_EQ(found.distinct_timestamps, 1180U);
  EXPECT_EQ(found.max_arrivals_at_once, 28U);
  EXPECT_NEAR(found.output_mean, 343, 0.6);
}

TEST(ModelTest, knows_the_published_sizes) {
  EXPECT_EQ(model_named("Llama-3.1-8B")->bytes_per_token(), 131072U);
  EXPECT_EQ(model_named("deepseek-v3")->bytes_per_token(), 70272U);
  EXPECT_EQ(model_named("gpt-oss-20b")->bytes_per_token(), 49152U);
  EXPECT_EQ(model_named("nope").code(), Code::not_found);
}

TEST(ModelTest, scales_bytes_and_nothing_else) {
  const auto config =
      scaled_config(*model_named("llama-3.1-8b"), {.scale = 1024, .num_blocks = 10});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->num_layers, 32U);
  EXPECT_EQ(config->outer_dim, 2U);
  EXPECT_EQ(config->page_size, 512U);
  EXPECT_EQ(config->inner_dim, 1U);
  const auto refused =
      scaled_config(*model_named("llama-3.1-8b"), {.scale = 1025, .num_blocks = 10});
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(std::string(refused.status().hint()), HasSubstr("1024"));
}

}  // namespace
}  // namespace towpath::traces
