#include "tools/top/window.h"

#include <array>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

namespace towpath::tools {
namespace {

constexpr WindowSize kSmall{.rows = 3, .columns = 5};

TEST(WindowTest, what_fits_is_shown_whole) {
  EXPECT_EQ(fitted("one\ntwo\n", 0, {.rows = 24, .columns = 80}), "one\ntwo\n  q: quit");
}

TEST(WindowTest, long_lines_are_cut_and_rows_are_never_more_than_the_window_has) {
  EXPECT_EQ(fitted("1234567\nb\nc\nd\n", 0, kSmall), "12345\nb\n  lin");
}

TEST(WindowTest, it_scrolls_to_the_last_line_and_no_further) {
  EXPECT_EQ(last_first_line("a\nb\nc\nd\n", kSmall), 2U);
  EXPECT_EQ(fitted("a\nb\nc\nd\n", 2, kSmall), "c\nd\n  lin");
  EXPECT_EQ(fitted("a\nb\nc\nd\n", 99, kSmall), "c\nd\n  lin");
}

TEST(WindowTest, keys_that_were_typed_at_once_are_all_taken) {
  int typist = -1, terminal = -1;
  if (openpty(&typist, &terminal, nullptr, nullptr, nullptr) != 0) GTEST_SKIP() << "no terminal";
  const int before = dup(STDIN_FILENO);
  dup2(terminal, STDIN_FILENO);
  {
    Keys keys;
    constexpr std::string_view kTyped = "jj\x1b[B\x1b[5~kxq";
    EXPECT_EQ(write(typist, kTyped.data(), kTyped.size()), std::ssize(kTyped));
    using enum Keys::Key;
    for (const Keys::Key key : std::vector{down, down, down, page_up, up, none, quit})
      EXPECT_EQ(keys.next(std::chrono::seconds(20)), key);
  }
  dup2(before, STDIN_FILENO);
  for (const int fd : {before, terminal, typist}) close(fd);
}

TEST(WindowTest, a_signal_is_a_wish_to_quit) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Keys keys(ends[0]);
  EXPECT_EQ(write(ends[1], "s", 1), 1);
  EXPECT_EQ(keys.next(std::chrono::seconds(20)), Keys::Key::quit);
  for (const int fd : ends) close(fd);
}

TEST(WindowTest, colours_are_no_letters_and_are_switched_off_again) {
  EXPECT_EQ(fitted("\x1b[31m1234567\x1b[0m\n", 0, kSmall), "\x1b[31m12345\x1b[0m\n  q: ");
}

}  // namespace
}  // namespace towpath::tools
