#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/net/address.h>
#include <towpath/rendezvous/check_user.h>
#include <towpath/rendezvous/scope.h>
#include <towpath/sys/local_socket.h>

namespace towpath::rendezvous {
namespace {

TEST(ScopeTest, names_of_a_scope_never_meet) {
  const std::string long_name(1000, 'x');
  const std::string longer_name(1001, 'x');
  EXPECT_EQ(address_in_scope("job", "decode/0")->name, "towpath/job/decode%2f0");
  EXPECT_NE(address_in_scope("job", long_name).value(),
            address_in_scope("job", longer_name).value());
  EXPECT_LE(address_in_scope(std::string(kMaxScope, 's'), long_name)->name.size(), 107U);
  EXPECT_NE(address_in_scope("job", "a").value(), address_in_scope("bob", "a").value());
  EXPECT_EQ(address_in_scope(long_name, "a").code(), Code::invalid_argument);
}

TEST(ScopeTest, scope_that_holds_a_slash_stays_in_its_own_place) {
  EXPECT_NE(address_in_scope("a/b", "c").value(), address_in_scope("a", "b/c").value());
}

TEST(CheckUserTest, other_end_is_known) {
  const auto pair = sys::LocalSocket::pair().value();
  EXPECT_TRUE(check_peer_user(pair.first.fd(), geteuid()).ok());
  EXPECT_EQ(check_peer_user(pair.first.fd(), geteuid() + 1).ok(), geteuid() == 0)
      << "root is always trusted";
  EXPECT_FALSE(check_peer_user(-1, geteuid()).ok());
}

}  // namespace
}  // namespace towpath::rendezvous
