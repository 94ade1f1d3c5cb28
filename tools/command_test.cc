#include "tools/command.h"

#include <gtest/gtest.h>

namespace towpath::tools {
namespace {

Status deep() {
  const Status lowest = error(Code::denied, "no permission", "ask for it");
  return error(Code::io_error, "cannot open the pool").because(lowest);
}

TEST(CommandTest, a_story_tells_every_cause_and_the_nearest_remedy) {
  EXPECT_EQ(story_of(deep()), "cannot open the pool, because no permission");
  EXPECT_EQ(remedy_of(deep()), "ask for it");
  EXPECT_EQ(remedy_of(error(Code::corrupt, "torn", "write it again").because(deep())),
            "write it again");
  EXPECT_EQ(remedy_of(Status()), "");
}

TEST(CommandTest, what_is_wrong_is_told_from_what_could_not_run) {
  EXPECT_EQ(exit_of(Status()), Exit::ok);
  EXPECT_EQ(exit_of(error(Code::corrupt, "x")), Exit::found_wrong);
  EXPECT_EQ(exit_of(error(Code::invalid_argument, "x")), Exit::usage);
  EXPECT_EQ(exit_of(error(Code::not_found, "x")), Exit::could_not_run);
}

TEST(CommandTest, only_the_work_that_was_chosen_runs) {
  CLI::App app("", "test");
  Exit exit = Exit::ok;
  int ran = 0;
  const auto add = [&](const char* name, Exit gives) {
    when_chosen(app.add_subcommand(name), exit, [&ran, gives] {
      ++ran;
      return Result<Exit>(gives);
    });
  };
  add("good", Exit::ok);
  add("bad", Exit::found_wrong);
  app.parse("bad");
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(exit, Exit::found_wrong);
}

TEST(CommandTest, a_failure_is_printed_with_the_whole_name_of_its_command) {
  CLI::App app("", "test");
  Exit exit = Exit::ok;
  when_chosen(app.add_subcommand("outer")->add_subcommand("inner"), exit,
              [] { return Result<Exit>(deep()); });
  testing::internal::CaptureStderr();
  app.parse("outer inner");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "test outer inner: cannot open the pool\n"
            "  because: no permission\n"
            "  remedy:  ask for it\n");
  EXPECT_EQ(exit, Exit::could_not_run);
}

TEST(CommandTest, whole_numbers_are_whole_and_fit) {
  CLI::Validator any = whole_number();
  CLI::Validator some = whole_number(1);
  for (std::string good : {"0", "18446744073709551615"}) EXPECT_EQ(any(good), "") << good;
  for (std::string bad : {"", "-5", "+1", "1.5", "1x", " 1", "18446744073709551616"})
    EXPECT_NE(any(bad), "") << bad;
  std::string zero = "0";
  EXPECT_NE(some(zero), "");
}

}  // namespace
}  // namespace towpath::tools
