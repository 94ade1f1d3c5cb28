#include <gtest/gtest.h>

#include <towpath/core/format.h>

namespace towpath {
namespace {

TEST(FormatTest, cat_joins_text_and_numbers) {
  EXPECT_EQ(cat("a", 1, ' ', std::string("b"), -2, true), "a1 b-2true");
  EXPECT_EQ(hex(0x1f40), "0x1f40");
}

TEST(FormatTest, sizes_print_exactly_where_they_can) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1500), "1500 B");
  EXPECT_EQ(format_bytes(65536), "64 KiB");
  EXPECT_EQ(format_bytes(65537), "64.0 KiB");
  EXPECT_EQ(format_bytes(3ULL << 30), "3 GiB");
}

TEST(FormatTest, sizes_parse_with_the_usual_units) {
  EXPECT_EQ(parse_bytes("4096").value(), 4096U);
  EXPECT_EQ(parse_bytes("64K").value(), 65536U);
  EXPECT_EQ(parse_bytes("64KiB").value(), 65536U);
  EXPECT_EQ(parse_bytes("1.5g").value(), 3ULL << 29);
  EXPECT_EQ(parse_bytes("7B").value(), 7U);
  EXPECT_EQ(parse_bytes("9007199254740993").value(), (1ULL << 53) + 1) << "to the last byte";
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), UINT64_MAX);
  for (const char* bad : {"", "K", "-1", "1X", "1KX", "1e99", "nan", "1BB", "20000P"}) {
    EXPECT_EQ(parse_bytes(bad).code(), Code::invalid_argument) << bad;
  }
}

TEST(FormatTest, printable_shows_any_bytes_and_cuts_long_ones) {
  EXPECT_EQ(printable(std::string_view("a\0\n\\z", 5)), "a\\x00\\x0a\\x5cz");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(FormatTest, path_safe_keeps_two_names_apart) {
  EXPECT_EQ(path_safe("decode-0"), "decode-0");
  EXPECT_EQ(path_safe("a/b%c"), "a%2fb%25c");
  EXPECT_EQ(path_safe(".."), "%2e.");
  EXPECT_NE(path_safe("%2e."), path_safe(".."));
  EXPECT_NE(path_safe(""), path_safe("%"));
}

TEST(FormatTest, folds_the_case_of_ascii_letters_only) {
  EXPECT_EQ(lower("UCX_Tls-9\xc3\x84"), "ucx_tls-9\xc3\x84");
  EXPECT_EQ(upper("ucx_tls-9\xc3\xa4"), "UCX_TLS-9\xc3\xa4");
}

}  // namespace
}  // namespace towpath
