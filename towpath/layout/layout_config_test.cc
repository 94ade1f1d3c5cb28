#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/layout_config.h>

namespace towpath::layout {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

LayoutConfig valid() {
  return {.num_blocks = 10, .num_layers = 4, .outer_dim = 2, .page_size = 16, .inner_dim = 128};
}

TEST(LayoutConfigTest, a_usual_config_is_valid_with_the_defaults) {
  const LayoutConfig config = valid();
  EXPECT_TRUE(config.validate().ok()) << config.validate().to_string();
  EXPECT_EQ(config.alignment, 1u);
  EXPECT_EQ(config.dtype_width_bytes, 2u);
  EXPECT_FALSE(config.num_heads.has_value());
}

struct BadField {
  std::string word;
  std::string value;
  std::function<void(LayoutConfig&)> spoil;
};

TEST(LayoutConfigTest, each_rule_is_refused_by_its_word_and_value) {
  const std::vector<BadField> cases = {
      {"num_blocks_must_be_positive", "0", [](LayoutConfig& c) { c.num_blocks = 0; }},
      {"num_layers_must_be_positive", "0", [](LayoutConfig& c) { c.num_layers = 0; }},
      {"outer_dim_must_be_1_or_2", "0", [](LayoutConfig& c) { c.outer_dim = 0; }},
      {"outer_dim_must_be_1_or_2", "3", [](LayoutConfig& c) { c.outer_dim = 3; }},
      {"page_size_must_be_positive", "0", [](LayoutConfig& c) { c.page_size = 0; }},
      {"inner_dim_must_be_positive", "0", [](LayoutConfig& c) { c.inner_dim = 0; }},
      {"alignment_must_be_power_of_2", "0", [](LayoutConfig& c) { c.alignment = 0; }},
      {"alignment_must_be_power_of_2", "3", [](LayoutConfig& c) { c.alignment = 3; }},
      {"dtype_width_bytes_must_be_power_of_two_and_at_most_8_bytes", "0",
       [](LayoutConfig& c) { c.dtype_width_bytes = 0; }},
      {"dtype_width_bytes_must_be_power_of_two_and_at_most_8_bytes", "3",
       [](LayoutConfig& c) { c.dtype_width_bytes = 3; }},
      {"dtype_width_bytes_must_be_power_of_two_and_at_most_8_bytes", "16",
       [](LayoutConfig& c) { c.dtype_width_bytes = 16; }},
      {"num_heads_must_be_positive", "0", [](LayoutConfig& c) { c.num_heads = 0; }},
      {"inner_dim_must_be_divisible_by_num_heads", "7", [](LayoutConfig& c) { c.num_heads = 7; }},
  };
  for (const BadField& bad : cases) {
    LayoutConfig config = valid();
    bad.spoil(config);
    const Status status = config.validate();
    EXPECT_EQ(status.code(), Code::invalid_argument) << bad.word << " " << bad.value;
    EXPECT_THAT(std::string(status.message()), StartsWith(bad.word));
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.value));
    EXPECT_FALSE(status.hint().empty());
  }
}

TEST(LayoutConfigTest, pages_have_any_number_of_tokens) {
  for (const std::uint64_t tokens : {1, 3, 24, 48, 100}) {
    LayoutConfig config = valid();
    config.page_size = tokens;
    EXPECT_TRUE(config.validate().ok()) << tokens;
  }
}

TEST(LayoutConfigTest, head_dim_is_inner_dim_over_num_heads) {
  LayoutConfig config = valid();
  config.inner_dim = 1024;
  config.num_heads = 8;
  EXPECT_TRUE(config.validate().ok());
  EXPECT_EQ(config.head_dim().value(), 128u);
}

TEST(LayoutConfigTest, head_dim_needs_num_heads) {
  const auto dim = valid().head_dim();
  EXPECT_EQ(dim.code(), Code::invalid_argument);
  EXPECT_THAT(std::string(dim.status().message()),
              StartsWith("num_heads_required_for_kv_block_layout"));
}

TEST(LayoutConfigTest, sizes_match_the_published_values) {
  EXPECT_EQ(valid().token_bytes().value(), 256u);
  EXPECT_EQ(valid().page_bytes().value(), 4096u);
  EXPECT_EQ(valid().block_bytes().value(), 32768u);
  EXPECT_EQ(valid().payload_bytes().value(), 327680u);
  const LayoutConfig object = {
      .num_blocks = 1, .num_layers = 32, .outer_dim = 2, .page_size = 16, .inner_dim = 64};
  EXPECT_EQ(object.block_bytes().value(), 131072u);
}

TEST(LayoutConfigTest, a_size_that_does_not_fit_is_an_error) {
  LayoutConfig config = valid();
  config.num_blocks = std::uint64_t{1} << 50;
  EXPECT_TRUE(config.block_bytes().ok());
  const auto total = config.payload_bytes();
  EXPECT_EQ(total.code(), Code::out_of_range);
  EXPECT_THAT(std::string(total.status().message()), HasSubstr("overflow"));
  config.inner_dim = UINT64_MAX;
  EXPECT_EQ(config.token_bytes().code(), Code::out_of_range);
  EXPECT_EQ(config.page_bytes().code(), Code::out_of_range);
  EXPECT_EQ(config.block_bytes().code(), Code::out_of_range);
}

}  // namespace
}  // namespace towpath::layout
