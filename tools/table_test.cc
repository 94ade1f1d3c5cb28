#include "tools/table.h"

#include <gtest/gtest.h>

namespace towpath::tools {
namespace {

TEST(TableTest, words_stand_left_and_numbers_right) {
  Table table({{"hop"}, {"blocks", Align::right}, {"path"}});
  table.add({"pull", "12,031", "mapped"});
  table.add({"load", "7", "io_uring"});
  EXPECT_EQ(table.text(Colours::no),
            "  hop   blocks  path\n"
            "  pull  12,031  mapped\n"
            "  load       7  io_uring\n");
}

TEST(TableTest, without_titles_there_is_no_line_of_them) {
  Table table({{""}, {""}});
  table.add({"yes", "why"});
  EXPECT_EQ(table.text(Colours::no), "  yes  why\n");
}

TEST(TableTest, no_spaces_stand_at_the_end_of_a_line) {
  Table table({{""}, {"", Align::right}, {""}});
  table.add({"requests", "10", "in all"});
  table.add({"short", "1"});
  table.add({"bare"});
  EXPECT_EQ(table.text(Colours::no),
            "  requests  10  in all\n"
            "  short      1\n"
            "  bare\n");
}

TEST(TableTest, a_note_stands_under_its_row) {
  Table table({{""}, {""}});
  table.add({"degraded", "no huge pages"});
  table.note("hint: reserve some");
  table.add({"yes", "memfd"});
  EXPECT_EQ(table.text(Colours::no),
            "  degraded  no huge pages\n"
            "            hint: reserve some\n"
            "  yes       memfd\n");
}

TEST(TableTest, a_long_note_is_broken_between_words) {
  Table table({{""}, {""}});
  table.add({"no"});
  table.note(std::string(60, 'a') + " " + std::string(35, 'b') + " " + std::string(200, 'c') +
             " d");
  EXPECT_EQ(table.text(Colours::no),
            "  no\n"
            "      " +
                std::string(60, 'a') +
                "\n"
                "      " +
                std::string(35, 'b') +
                "\n"
                "      " +
                std::string(200, 'c') +
                "\n"
                "      d\n");
}

TEST(TableTest, colours_are_for_terminals_and_move_no_column) {
  Table table({{""}, {""}});
  table.add({{"no", Tone::bad}, "x"});
  table.add({"plain", "y"});
  EXPECT_EQ(table.text(Colours::no), "  no     x\n  plain  y\n");
  EXPECT_EQ(table.text(Colours::yes), "  \x1b[1;31mno\x1b[0m     x\n  plain  y\n");
}

}  // namespace
}  // namespace towpath::tools
