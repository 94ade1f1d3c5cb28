#include "tools/top/window.h"

#include <gtest/gtest.h>

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

TEST(WindowTest, colours_are_no_letters_and_are_switched_off_again) {
  EXPECT_EQ(fitted("\x1b[31m1234567\x1b[0m\n", 0, kSmall), "\x1b[31m12345\x1b[0m\n  q: ");
}

}  // namespace
}  // namespace towpath::tools
