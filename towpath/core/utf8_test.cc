#include <gtest/gtest.h>

#include <towpath/core/utf8.h>

namespace towpath {
namespace {

TEST(Utf8Test, characters_of_every_length_are_text) {
  for (const char* text : {"", "decode-0", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf0\x90\x80\x80", "a\xf4\x8f\xbf\xbfz"})
    EXPECT_TRUE(is_utf8(text)) << text;
}

TEST(Utf8Test, what_is_cut_stray_too_long_or_too_large_is_not) {
  for (const char* bytes :
       {"\x80", "\xc2", "a\xe2\x82", "\xf0\x90\x80", "\xc2z", "\xe2\x82z",  // cut
        "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",         // longer forms
        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_FALSE(is_utf8(bytes)) << bytes;
}

}  // namespace
}  // namespace towpath
