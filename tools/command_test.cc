#include "tools/command.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

namespace towpath::tools {
namespace {

Status deep() {
  const Status lowest = error(Code::denied, "no permission", "ask for it");
  return error(Code::io_error, "cannot open the pool").because(lowest);
}

TEST(CommandTest, a_story_reports_every_cause_and_the_nearest_hint) {
  EXPECT_EQ(story_of(deep()), "cannot open the pool, because no permission");
  EXPECT_EQ(hint_of(deep()), "ask for it");
  EXPECT_EQ(hint_of(error(Code::corrupt, "torn", "write it again").because(deep())),
            "write it again");
  EXPECT_EQ(hint_of(Status()), "");
}

TEST(CommandTest, nearest_word_is_one_that_was_meant) {
  const std::vector<std::string> words{"doctor", "explain", "replay", "run", "trace"};
  EXPECT_EQ(nearest_word("repaly", words), "replay");
  EXPECT_EQ(nearest_word("doktor", words), "doctor");
  EXPECT_EQ(nearest_word("tracee", words), "trace");
  EXPECT_EQ(nearest_word("pigeon", words), "");
  EXPECT_EQ(nearest_word("replay", {}), "");
}

TEST(CommandTest, what_is_wrong_is_reported_from_what_could_not_run) {
  EXPECT_EQ(exit_of(Status()), Exit::ok);
  EXPECT_EQ(exit_of(error(Code::corrupt, "x")), Exit::found_wrong);
  EXPECT_EQ(exit_of(error(Code::invalid_argument, "x")), Exit::usage);
  EXPECT_EQ(exit_of(error(Code::not_found, "x")), Exit::could_not_run);
}

/// What `line` gives for these words after its own name.
Exit run(CommandLine& line, std::vector<const char*> words) {
  words.insert(words.begin(), "test");
  return line.run(static_cast<int>(words.size()), words.data());
}

TEST(CommandTest, only_the_work_that_was_chosen_runs) {
  CommandLine line("test", "");
  int ran = 0;
  const auto add = [&](const char* name, Exit gives) {
    line.command().add(name, "").when_chosen([&ran, gives] {
      ++ran;
      return Result<Exit>(gives);
    });
  };
  add("good", Exit::ok);
  add("bad", Exit::found_wrong);
  EXPECT_EQ(run(line, {"bad"}), Exit::found_wrong);
  EXPECT_EQ(ran, 1);
}

TEST(CommandTest, a_failure_is_printed_with_the_whole_name_of_its_command) {
  CommandLine line("test", "");
  line.command().add("outer", "").add("inner", "").when_chosen([] { return Result<Exit>(deep()); });
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(line, {"outer", "inner"}), Exit::could_not_run);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "test outer inner: cannot open the pool\n"
            "  because: no permission\n"
            "  hint:  ask for it\n");
}

/// Whether the work of a command that writes `path` begins.
bool begins_to_write(const std::string& path) {
  CommandLine line("test", "");
  Command command = line.command().add("tell", "");
  std::string to;
  bool began = false;
  command.output("--json", to, "");
  command.when_chosen([&began] {
    began = true;
    return Result<Exit>(Exit::ok);
  });
  ::testing::internal::CaptureStderr();
  const Exit exit = run(line, {"tell", "--json", path.c_str()});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit, began ? Exit::ok : Exit::could_not_run);
  EXPECT_EQ(said.find(path) == std::string::npos, began) << said;
  EXPECT_EQ(said.find("hint:") == std::string::npos, began) << said;
  return began;
}

TEST(CommandTest, what_cannot_be_written_is_reported_before_the_work_begins) {
  const std::string folder = ::testing::TempDir() + "command_test_outputs";
  std::filesystem::create_directories(folder);
  const std::string there = folder + "/there", fresh = folder + "/fresh";
  std::ofstream(there) << "precious";
  EXPECT_TRUE(begins_to_write("-"));
  EXPECT_TRUE(begins_to_write("/dev/null"));
  EXPECT_TRUE(begins_to_write(there));
  EXPECT_EQ(std::filesystem::file_size(there), 8U) << "it is not cut before there is something";
  EXPECT_TRUE(begins_to_write(fresh));
  EXPECT_FALSE(std::filesystem::exists(fresh)) << "nothing stays of the trial";
  EXPECT_FALSE(begins_to_write(folder));
  EXPECT_FALSE(begins_to_write(folder + "/no/such"));
  EXPECT_FALSE(begins_to_write(there + "/below"));
  std::filesystem::remove_all(folder);
}

/// Whether an option takes `word`, that is checked by what `check` adds.
template <typename Number, typename Check>
bool takes(const char* word, Check check) {
  CommandLine line("test", "");
  Command command = line.command().add("count", "");
  Number number = 0;
  check(command.option("--number", number));
  command.when_chosen([] { return Result<Exit>(Exit::ok); });
  ::testing::internal::CaptureStderr();
  const Exit exit = run(line, {"count", "--number", word});
  ::testing::internal::GetCapturedStderr();
  return exit == Exit::ok;
}

TEST(CommandTest, values_with_commas_take_no_word_that_follows) {
  CommandLine line("test", "");
  Command command = line.command().add("start", "");
  std::vector<std::string> hosts, words;
  command.option("--hosts", hosts).with_commas();
  command.option("program", words).required();
  command.passes_the_rest();
  command.when_chosen([] { return Result<Exit>(Exit::ok); });
  EXPECT_EQ(run(line, {"start", "--hosts", "left,right", "./program", "argument"}), Exit::ok);
  EXPECT_EQ(hosts, (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(words, (std::vector<std::string>{"./program", "argument"}));
}

TEST(CommandTest, whole_numbers_are_whole_and_fit) {
  const auto whole = [](Option option) { option.whole(); };
  for (const char* good : {"0", "18446744073709551615"})
    EXPECT_TRUE(takes<std::uint64_t>(good, whole)) << good;
  for (const char* bad : {"", "-5", "+1", "1.5", "1x", " 1", "18446744073709551616"})
    EXPECT_FALSE(takes<std::uint64_t>(bad, whole)) << bad;
  EXPECT_FALSE(takes<std::uint64_t>("0", [](Option option) { option.whole(1); }));
}

TEST(CommandTest, numbers_are_bounded_and_nan_is_none) {
  const auto positive = [](Option option) { option.positive(); };
  const auto not_negative = [](Option option) { option.not_negative(); };
  const auto share = [](Option option) { option.between(0.0, 1.0); };
  for (const char* good : {"0.5", "1e-3", "1"}) {
    EXPECT_TRUE(takes<double>(good, positive)) << good;
    EXPECT_TRUE(takes<double>(good, not_negative)) << good;
    EXPECT_TRUE(takes<double>(good, share)) << good;
  }
  EXPECT_TRUE(takes<double>("1e9", positive));
  EXPECT_TRUE(takes<double>("0", not_negative));
  EXPECT_FALSE(takes<double>("0", positive));
  for (const char* bad : {"nan", "-nan", "inf", "-1", "1.1e9", "1e300", "x", ""}) {
    EXPECT_FALSE(takes<double>(bad, positive)) << bad;
    EXPECT_FALSE(takes<double>(bad, not_negative)) << bad;
    EXPECT_FALSE(takes<double>(bad, share)) << bad;
  }
}

}  // namespace
}  // namespace towpath::tools
