#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <towpath/sys/byte_stream.h>

namespace towpath::sys {
namespace {

using Pair = std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>>;

Pair socket_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {make_socket_stream(Fd(ends[0])), make_socket_stream(Fd(ends[1]))};
}

/// What both kinds of stream promise.
class ByteStreamTest : public ::testing::TestWithParam<bool> {
 protected:
  Pair pair_ = GetParam() ? make_memory_streams() : socket_pair();
  Bytes buffer_ = Bytes(16);
};

INSTANTIATE_TEST_SUITE_P(Both, ByteStreamTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "memory" : "socket"; });

TEST_P(ByteStreamTest, bytes_go_both_ways_in_order) {
  auto& [a, b] = pair_;
  EXPECT_EQ(*a->write_some(as_bytes("to")), 2u);
  EXPECT_EQ(*a->write_some(as_bytes("gether")), 6u);
  EXPECT_EQ(b->read_some(buffer_)->size_bytes, 8u);
  EXPECT_EQ(as_text(buffer_).substr(0, 8), "together");
  EXPECT_EQ(*b->write_some(as_bytes("back")), 4u);
  EXPECT_EQ(a->read_some(buffer_)->size_bytes, 4u);
}

TEST_P(ByteStreamTest, nothing_there_is_not_the_end) {
  auto read = pair_.first->read_some(buffer_);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->size_bytes, 0u);
  EXPECT_FALSE(read->ended);
  EXPECT_EQ(pair_.first->read_some({}).code(), Code::invalid_argument);
}

TEST_P(ByteStreamTest, what_was_sent_is_read_before_the_end) {
  EXPECT_EQ(*pair_.first->write_some(as_bytes("last")), 4u);
  pair_.first.reset();
  auto read = pair_.second->read_some(buffer_);
  EXPECT_EQ(read->size_bytes, 4u);
  EXPECT_FALSE(read->ended);
  EXPECT_TRUE(pair_.second->read_some(buffer_)->ended);
  EXPECT_EQ(pair_.second->write_some(as_bytes("x")).code(), Code::peer_lost);
}

TEST_P(ByteStreamTest, parts_go_and_come_in_order) {
  auto& [a, b] = pair_;
  const std::array<ConstByteSpan, 3> parts = {as_bytes("one "), as_bytes("two "),
                                              as_bytes("three")};
  EXPECT_EQ(*a->write_parts(parts), 13u);
  Bytes first(3), second(20);
  const auto read = b->read_parts(std::array<ByteSpan, 2>{first, second});
  EXPECT_EQ(read->size_bytes, 13u);
  EXPECT_EQ(as_text(first), "one");
  EXPECT_EQ(as_text(second).substr(0, 10), " two three");
  a.reset();
  EXPECT_TRUE(b->read_parts(std::array<ByteSpan, 2>{first, second})->ended);
  EXPECT_EQ(b->write_parts(parts).code(), Code::peer_lost);
}

TEST_P(ByteStreamTest, more_parts_than_the_kernel_takes_at_once_go_in_turn) {
  auto& [a, b] = pair_;
  const Bytes one(1, std::byte{7});
  const std::vector<ConstByteSpan> parts(3 * ByteStream::kMostParts, one);
  std::size_t sent = 0;
  while (sent < parts.size()) {
    const auto some = a->write_parts(std::span(parts).subspan(sent));
    ASSERT_TRUE(some.ok() && *some > 0);
    sent += *some;
  }
  Bytes all(parts.size());
  EXPECT_EQ(b->read_some(all)->size_bytes, parts.size());
}

TEST_P(ByteStreamTest, a_full_stream_takes_no_more_until_read) {
  const Bytes block(4096);
  std::size_t written = 0;
  for (;;) {
    auto put = pair_.first->write_some(block);
    ASSERT_TRUE(put.ok());
    if (*put == 0) break;
    written += *put;
  }
  Bytes into(written);
  std::size_t read = 0;
  while (read < written) {
    auto got = pair_.second->read_some(ByteSpan(into).subspan(read));
    ASSERT_TRUE(got.ok() && got->size_bytes > 0);
    read += got->size_bytes;
  }
  EXPECT_GT(*pair_.first->write_some(block), 0u);
}

TEST(MemoryStreamTest, hands_over_one_byte_at_a_time) {
  auto [a, b] = make_memory_streams({.most_per_read = 1, .most_per_write = 2});
  Bytes into(4);
  EXPECT_EQ(*a->write_some(as_bytes("abc")), 2u);
  EXPECT_EQ(b->read_some(into)->size_bytes, 1u);
  EXPECT_EQ(into[0], std::byte{'a'});
}

TEST(MemoryStreamTest, a_slow_side_says_not_now_every_other_time) {
  auto [a, b] = make_memory_streams({.every_other_call_stalls = true});
  Bytes into(4);
  EXPECT_EQ(*a->write_some(as_bytes("ab")), 0u);
  EXPECT_EQ(*a->write_some(as_bytes("ab")), 2u);
  EXPECT_EQ(b->read_some(into)->size_bytes, 0u);
  EXPECT_EQ(b->read_some(into)->size_bytes, 2u);
}

TEST(MemoryStreamTest, a_cut_lets_its_bytes_through_and_then_nothing) {
  auto [a, b] = make_memory_streams({.cut_after_bytes = 3});
  Bytes into(8);
  EXPECT_EQ(*a->write_some(as_bytes("abcdef")), 3u);
  EXPECT_EQ(a->write_some(as_bytes("def")).code(), Code::peer_lost);
  EXPECT_EQ(b->read_some(into)->size_bytes, 3u);
  EXPECT_EQ(b->read_some(into).code(), Code::peer_lost);
}

}  // namespace
}  // namespace towpath::sys
