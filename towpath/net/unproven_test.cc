#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <towpath/net/endpoint.h>
#include <towpath/net/unproven.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

using std::chrono::seconds;

constexpr Duration kSilence = seconds(2);

Source source_at(std::string_view host) {
  return source_of(resolve({std::string(host), 1})->front());
}

// At most 4 of a source and 6 altogether; their numbers say the order in which they came.
class UnprovenTest : public testing::Test {
 protected:
  Unproven& add(std::string_view host) {
    const std::uint64_t id = all.size() + 1;
    all.push_back({.id = id,
                   .source = source_at(host),
                   .silent_since = Instant{} + Duration(id),
                   .silent_at_least = kSilence});
    return all.back();
  }
  void add(std::size_t count, std::string_view host) {
    for (std::size_t i = 0; i < count; ++i) add(host);
  }
  Result<std::optional<std::uint64_t>> displaced(const std::optional<Source>& by) const {
    return displaced_by(
        by, {.unproven = all, .most_per_source = 4, .is_full = all.size() >= 6, .now = now});
  }
  // 0: there is room, and none goes.
  std::uint64_t displaced_by_one_of(std::string_view host) const {
    return displaced(source_at(host)).value().value_or(0);
  }
  Code refused(std::string_view host) const { return displaced(source_at(host)).code(); }

  std::vector<Unproven> all;
  Instant now = Instant{} + Duration(100);
};

TEST_F(UnprovenTest, addresses_of_one_host_are_one_source) {
  EXPECT_EQ(source_at("10.0.0.1"), source_at("::ffff:10.0.0.1"));
  EXPECT_NE(source_at("10.0.0.1"), source_at("10.0.0.2"));
  EXPECT_EQ(source_at("2001:db8:1:200::1"), source_at("2001:db8:1:2ff::2"));
  EXPECT_NE(source_at("2001:db8:1:200::1"), source_at("2001:db8:1:300::1"));
}

TEST_F(UnprovenTest, while_there_is_room_none_goes) {
  EXPECT_EQ(displaced_by_one_of("10.0.0.1"), 0U);
  add(3, "10.0.0.1");
  EXPECT_EQ(displaced_by_one_of("10.0.0.1"), 0U);
}

TEST_F(UnprovenTest, source_that_has_its_share_gives_up_its_own_after_a_silence) {
  add("10.0.0.9");
  add(4, "10.0.0.1");
  EXPECT_EQ(refused("10.0.0.1"), Code::exhausted);
  EXPECT_EQ(displaced_by_one_of("10.0.0.2"), 0U);
  now = now + kSilence;
  EXPECT_EQ(displaced_by_one_of("10.0.0.1"), 2U) << "the longest silent of its own";
  all[1].has_spoken = true;
  EXPECT_EQ(displaced_by_one_of("10.0.0.1"), 3U) << "one that has said nothing goes first";
}

TEST_F(UnprovenTest, source_that_has_none_is_let_in_at_once_by_the_busiest) {
  add("10.0.0.9");
  add(2, "10.0.0.1");
  add(3, "10.0.0.2");
  EXPECT_EQ(displaced_by_one_of("10.0.0.3"), 4U);
  EXPECT_EQ(refused("10.0.0.9"), Code::exhausted) << "it has one already";
  EXPECT_EQ(displaced(std::nullopt).code(), Code::exhausted) << "it may be of any source";
  now = now + kSilence;
  EXPECT_EQ(displaced_by_one_of("10.0.0.9"), 4U);
  EXPECT_EQ(displaced(std::nullopt).value(), 4U);
}

TEST_F(UnprovenTest, sources_that_have_one_each_go_only_after_a_silence) {
  for (const auto* host : {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"})
    add(host);
  EXPECT_EQ(refused("10.0.0.7"), Code::exhausted);
  now = now + kSilence;
  EXPECT_EQ(displaced_by_one_of("10.0.0.7"), 1U);
}

// 512 of them are one process, and keep out no other host.
TEST_F(UnprovenTest, addresses_of_the_loopback_are_together_one_host) {
  EXPECT_EQ(host_of(source_at("127.0.0.1")), host_of(source_at("127.200.3.4")));
  EXPECT_NE(host_of(source_at("10.0.0.1")), host_of(source_at("10.0.0.2")));
  add("10.0.0.9");
  for (const auto* at : {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}) add(at);
  for (Unproven& one : all) one.has_spoken = true;
  EXPECT_EQ(displaced_by_one_of("10.0.0.7"), 2U);
  now = now + kSilence;
  EXPECT_EQ(displaced_by_one_of("10.0.0.9"), 2U) << "though its own is silent longer";
}

TEST_F(UnprovenTest, none_goes_whose_words_have_arrived) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const sys::Fd near(ends[0]), far(ends[1]);
  add("10.0.0.1").socket = near.get();
  add(3, "10.0.0.1");
  now = now + kSilence;
  EXPECT_EQ(displaced_by_one_of("10.0.0.1"), 1U);
  ASSERT_EQ(::send(far.get(), "x", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(refused("10.0.0.1"), Code::exhausted);
}

TEST_F(UnprovenTest, where_all_have_proven_themselves_the_newcomer_is_refused) {
  const Crowd proven{.unproven = {}, .most_per_source = 4, .is_full = true, .now = now};
  EXPECT_EQ(displaced_by(source_at("10.0.0.1"), proven).code(), Code::exhausted);
}

}  // namespace
}  // namespace towpath::net
