#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/result.h>
#include <towpath/core/status.h>

namespace towpath {
namespace {

static_assert(sizeof(Status) == 8);
static_assert(sizeof(Result<int>) == 16);

Result<int> half(int number) {
  if (number % 2 != 0) return error(Code::invalid_argument, "odd");
  return number / 2;
}

Result<int> quarter(int number) {
  TOWPATH_TRY(int once, half(number));
  TOWPATH_TRY(int twice, half(once));
  return twice;
}

Status is_divisible_by_four(int number) {
  TOWPATH_TRY(quarter(number));
  return {};
}

TEST(StatusTest, default_is_ok_and_prints_so) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.to_string(), "ok");
  EXPECT_TRUE(status.cause().ok());
}

TEST(StatusTest, failure_keeps_message_hint_cause_and_line) {
  Status lower = error(Code::denied, "open('x') failed", "chmod it");
  const auto line = std::source_location::current().line() + 1;
  Status upper = error(Code::io_error, "no cache").because(lower);
  EXPECT_EQ(upper.code(), Code::io_error);
  EXPECT_EQ(upper.cause(), lower);
  EXPECT_EQ(upper.where().line(), line);
  EXPECT_EQ(upper.to_string(), "io_error: no cache <- denied: open('x') failed (hint: chmod it)");
}

TEST(StatusTest, copies_share_and_survive_the_original) {
  Status copy;
  {
    Status original = error(Code::corrupt, "digest");
    copy = original;
  }
  EXPECT_EQ(copy.message(), "digest");
  Status& same = copy;  // by another name: newer compilers warn of a move to itself
  copy = std::move(same);
  EXPECT_EQ(copy.message(), "digest");
}

TEST(StatusTest, every_code_has_a_name_of_its_own) {
  std::vector<std::string_view> names;
  for (int number = 0; number <= 16; ++number) names.push_back(name_of(static_cast<Code>(number)));
  EXPECT_THAT(names, testing::Not(testing::Contains("unknown")));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(name_of(static_cast<Code>(200)), "unknown");
}

TEST(ResultTest, try_hands_on_values_and_failures) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).code(), Code::invalid_argument);
  EXPECT_TRUE(is_divisible_by_four(8).ok());
  EXPECT_EQ(is_divisible_by_four(7).message(), "odd");
}

TEST(ResultTest, carries_what_only_moves) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  std::unique_ptr<int> owned = *std::move(result);
  EXPECT_EQ(*owned, 7);
}

TEST(ResultDeathTest, value_of_a_failure_stops_with_the_reason) {
  Result<int> failed = half(3);
  EXPECT_DEATH((void)failed.value(), "value\\(\\) of a failed Result");
}

}  // namespace
}  // namespace towpath
