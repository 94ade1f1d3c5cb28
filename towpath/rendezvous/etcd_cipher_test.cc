#include <gtest/gtest.h>

#include <towpath/rendezvous/etcd_cipher.h>

namespace towpath::rendezvous::etcd {
namespace {

const Cipher kOurs(net::Token::make("a secret that all agents share").value());

TEST(EtcdCipherTest, value_is_good_under_its_own_key_only) {
  const Bytes value = kOurs.encrypt("/agents/a", as_bytes("metadata"));
  EXPECT_TRUE(is_encrypted(value));
  EXPECT_EQ(value.size(), 8 + Cipher::kOverhead);
  EXPECT_EQ(kOurs.decrypt("/agents/a", value).value(), to_bytes("metadata"));
  EXPECT_EQ(kOurs.decrypt("/agents/b", value).code(), Code::denied);
  const Cipher others(net::Token::make("a secret of some others").value());
  EXPECT_EQ(others.decrypt("/agents/a", value).code(), Code::denied);
}

TEST(EtcdCipherTest, what_is_not_encrypted_here_is_refused_by_what_it_is) {
  EXPECT_EQ(kOurs.decrypt("/a", as_bytes("TOWP and so on")).code(), Code::denied);
  EXPECT_EQ(kOurs.decrypt("/a", {}).code(), Code::denied);
  Bytes newer = kOurs.encrypt("/a", as_bytes("metadata"));
  newer[4] = std::byte{2};
  EXPECT_EQ(kOurs.decrypt("/a", newer).code(), Code::unsupported);
  EXPECT_EQ(kOurs.decrypt("/a", ConstByteSpan(newer).first(6)).code(), Code::corrupt);
  EXPECT_EQ(kOurs.decrypt("/a", as_bytes(std::string_view("TPEM\1\0\0\0rest", 12))).code(),
            Code::corrupt);
}

}  // namespace
}  // namespace towpath::rendezvous::etcd
