#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/words.h>

namespace towpath {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view word; !(word = next_word(text, ", ")).empty();) words.emplace_back(word);
  return words;
}

TEST(WordsTest, separators_in_any_number_part_them) {
  EXPECT_THAT(words_of("eth0,eth1"), testing::ElementsAre("eth0", "eth1"));
  EXPECT_THAT(words_of(", eth0 ,, eth1,"), testing::ElementsAre("eth0", "eth1"));
  EXPECT_THAT(words_of("one"), testing::ElementsAre("one"));
  EXPECT_THAT(words_of(" , "), testing::ElementsAre());
  EXPECT_THAT(words_of(""), testing::ElementsAre());
}

}  // namespace
}  // namespace towpath
