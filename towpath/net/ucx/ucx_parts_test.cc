// What UcxParts makes of parts, whoever sent them.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <towpath/net/ucx/ucx_parts.h>

namespace towpath::net {
namespace {

constexpr std::size_t kMost = 1000;

class UcxPartsTest : public ::testing::Test {
 protected:
  /// What travels of this message.
  static Bytes sealed(std::string_view message) {
    MessageBuffer buffer(message.size());
    std::ranges::copy(as_bytes(message), buffer.room().begin());
    buffer.size = message.size();
    const ConstByteSpan all = buffer.with_prefix();
    return {all.begin(), all.end()};
  }
  /// As text, or "-" when there is no message yet.
  std::string take(const Bytes& all, std::size_t offset, std::size_t length) {
    const auto message = parts_.take(offset, ConstByteSpan(all).subspan(offset, length));
    return message ? std::string(as_text(message->head)) + std::string(as_text(message->body))
                   : "-";
  }

  UcxParts parts_{kMost};
};

TEST_F(UcxPartsTest, message_in_one_part_stays_where_it_is) {
  const Bytes all = sealed("hello");
  const auto message = parts_.take(0, all);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(as_text(message->head), "hello");
  EXPECT_EQ(message->head.data(), all.data() + MessagePrefix::kBytes);
}

TEST_F(UcxPartsTest, longest_and_shortest_are_messages) {
  EXPECT_EQ(take(sealed(""), 0, 8), "");
  const std::string longest(kMost, 'x');
  EXPECT_EQ(take(sealed(longest), 0, 8 + kMost), longest);
}

TEST_F(UcxPartsTest, parts_are_gathered_in_any_order_behind_the_first) {
  const Bytes all = sealed("one two three");
  EXPECT_EQ(take(all, 0, 11), "-");
  EXPECT_EQ(take(all, 15, 6), "-");
  EXPECT_EQ(take(all, 11, 4), "one two three");
  EXPECT_EQ(take(all, 0, 8), "-") << "the length alone is a part";
  EXPECT_EQ(take(all, 8, 13), "one two three");
}

TEST_F(UcxPartsTest, new_message_begins_whatever_became_of_the_last) {
  EXPECT_EQ(take(sealed("never ends"), 0, 10), "-");
  EXPECT_EQ(take(sealed("whole"), 0, 13), "whole");
  EXPECT_EQ(take(sealed("never ends"), 10, 8), "-") << "of one that is given up";
}

TEST_F(UcxPartsTest, what_has_no_length_of_a_message_is_handed_out_as_it_is) {
  const std::string too_long = std::string(as_text(sealed(std::string(kMost + 1, 'x'))));
  const std::string with_more = std::string(as_text(sealed("hello"))) + "!";
  for (const std::string& strange : {std::string(), std::string("TPU"), too_long, with_more})
    EXPECT_EQ(take(to_bytes(strange), 0, strange.size()), strange);
}

TEST_F(UcxPartsTest, parts_that_do_not_fit_end_their_message) {
  const Bytes all = sealed("0123456789");
  const Bytes more(kMost, std::byte{'x'});
  for (const std::size_t offset : {std::size_t{5}, std::size_t{17}, std::size_t{900}}) {
    EXPECT_EQ(take(all, 0, 12), "-");
    EXPECT_EQ(take(more, offset, 10), "-") << offset;
    EXPECT_EQ(take(all, 12, 6), "-") << "of one that was given up at " << offset;
  }
}

}  // namespace
}  // namespace towpath::net
