#include <gtest/gtest.h>

#include <towpath/net/tcp/tcp_address.h>

namespace towpath::net {
namespace {

TcpPlace some_place() {
  TcpPlace place{.instance = 7, .secret = "sixteen bytes!!!"};
  place.endpoints = {resolve({.host = "10.1.2.3", .port = 4711}).value().front(),
                     resolve({.host = "2001:db8::5", .port = 65535}).value().front()};
  return place;
}

TEST(TcpAddressTest, values_come_back) {
  const auto again = decode_tcp_place(encode(some_place()));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->instance, 7U);
  EXPECT_EQ(again->secret, "sixteen bytes!!!");
  ASSERT_EQ(again->endpoints.size(), 2U);
  EXPECT_EQ(to_address(again->endpoints[0]), (TcpAddress{"10.1.2.3", 4711}));
  EXPECT_EQ(to_address(again->endpoints[1]), (TcpAddress{"2001:db8::5", 65535}));
}

TEST(TcpAddressTest, what_makes_no_sense_is_refused) {
  TcpPlace one = some_place();
  one.endpoints.resize(1);
  const Bytes good = encode(one);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_tcp_place(ConstByteSpan(good).first(size)).ok()) << size;
  TcpPlace nobody = some_place();
  nobody.instance = 0;
  EXPECT_EQ(decode_tcp_place(encode(nobody)).code(), Code::corrupt);
  TcpPlace open = some_place();
  open.secret = "short";
  EXPECT_EQ(decode_tcp_place(encode(open)).code(), Code::corrupt);
}

TEST(TcpAddressTest, greeting_names_the_worker) {
  EXPECT_EQ(greeting_of(7), greeting_of(7));
  EXPECT_NE(greeting_of(7), greeting_of(8));
}

}  // namespace
}  // namespace towpath::net
