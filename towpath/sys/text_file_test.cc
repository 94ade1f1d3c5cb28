#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>

#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

TEST(TextFileTest, reads_whole_files_up_to_the_bound) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->file("t");
  std::ofstream(path) << std::string(10000, 'x');
  EXPECT_EQ(read_text_file(path)->size(), 10000u);
  EXPECT_EQ(read_text_file(path, 10000)->size(), 10000u);
  EXPECT_EQ(read_text_file(path, 9999).code(), Code::corrupt);
  EXPECT_EQ(read_text_file(path + "x").code(), Code::not_found);
  EXPECT_EQ(read_text_file("/proc").code(), Code::invalid_argument);
}

TEST(TextFileTest, numbers_are_whole_and_bounded) {
  EXPECT_EQ(parse_number(" 42\n"), 42u);
  EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", " ", "-1", "+1", "1 2", "1x", "18446744073709551616"})
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
}

TEST(TextFileTest, finds_the_line_of_a_key) {
  constexpr std::string_view kText = "aa: 1\nb: 2\nlast: 3";
  EXPECT_EQ(line_after(kText, "b:"), " 2");
  EXPECT_EQ(line_after(kText, "last:"), " 3");
  EXPECT_EQ(line_after(kText, "a:"), std::nullopt);
  EXPECT_EQ(line_after("", "a:"), std::nullopt);
}

TEST(TextFileTest, trims_both_ends) {
  EXPECT_EQ(trimmed(" \t a b\n"), "a b");
  EXPECT_EQ(trimmed(" \n"), "");
}

}  // namespace
}  // namespace towpath::sys
