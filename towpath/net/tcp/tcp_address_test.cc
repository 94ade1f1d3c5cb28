#include <string>

#include <gtest/gtest.h>

#include <towpath/net/tcp/tcp_address.h>

namespace towpath::net {
namespace {

Endpoint at(const std::string& host, std::uint16_t port) {
  return resolve({.host = host, .port = port}).value().front();
}

HostMark mark_of(unsigned number) {
  HostMark mark{};
  mark.front() = static_cast<std::byte>(number);
  return mark;
}

TcpPlace some_place() {
  return {.host = mark_of(7), .endpoints = {at("10.1.2.3", 4711), at("2001:db8::5", 65535)}};
}

TEST(TcpAddressTest, values_come_back) {
  const auto again = decode_tcp_place(encode(some_place()));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->host, mark_of(7));
  ASSERT_EQ(again->endpoints.size(), 2U);
  EXPECT_EQ(to_address(again->endpoints[0]), (TcpAddress{"10.1.2.3", 4711}));
  EXPECT_EQ(to_address(again->endpoints[1]), (TcpAddress{"2001:db8::5", 65535}));
}

TEST(TcpAddressTest, a_port_says_by_what_it_speaks_tls) {
  TcpPlace place = some_place();
  EXPECT_FALSE(decode_tcp_place(encode(place))->wants_certificate);
  place.wants_certificate = true;
  EXPECT_TRUE(decode_tcp_place(encode(place))->wants_certificate);
  place.wants_certificate = false;
  place.tls_key.emplace().fill(std::byte{7});
  EXPECT_EQ(decode_tcp_place(encode(place))->tls_key, place.tls_key);
}

TEST(TcpAddressTest, host_may_be_unknown) {
  TcpPlace place = some_place();
  place.host.reset();
  const auto again = decode_tcp_place(encode(place));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_FALSE(again->host);
}

TEST(TcpAddressTest, what_makes_no_sense_is_refused) {
  TcpPlace one = some_place();
  one.host.reset();
  one.endpoints.resize(1);
  const Bytes good = encode(one);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_tcp_place(ConstByteSpan(good).first(size)).ok()) << size;
}

TEST(TcpAddressTest, host_has_one_mark) {
  const auto mark = host_mark();
  ASSERT_TRUE(mark.ok()) << mark.status().to_string();
  EXPECT_EQ(*mark, *host_mark());
}

TEST(TcpAddressTest, what_hosts_share_leads_only_to_oneself) {
  const TcpPlace place{
      .host = mark_of(1),
      .endpoints = {at("10.1.2.3", 1), at("172.17.0.1", 2), at("::1", 3), at("127.0.0.1", 4)}};
  const std::vector<Endpoint> own = {at("10.1.2.4", 0), at("172.17.0.1", 0)};
  EXPECT_EQ(reachable_from(place, mark_of(1), own).size(), 4U);
  for (const std::optional<HostMark>& other :
       {std::optional(mark_of(2)), std::optional<HostMark>()}) {
    const auto reachable = reachable_from(place, other, own);
    ASSERT_EQ(reachable.size(), 1U);
    EXPECT_EQ(to_address(reachable.front()), (TcpAddress{"10.1.2.3", 1}));
  }
  EXPECT_EQ(reachable_from({.host = {}, .endpoints = place.endpoints}, std::nullopt, own).size(),
            1U)
      << "two hosts that are unknown are not one";
}

}  // namespace
}  // namespace towpath::net
