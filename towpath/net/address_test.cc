#include <string>

#include <gtest/gtest.h>

#include <towpath/net/address.h>

namespace towpath::net {
namespace {

TEST(AddressTest, each_form_is_read_and_written_as_it_was) {
  for (const char* text : {"unix:/run/towpath.sock", "unix:@towpath/a", "tcp://10.0.0.7:9000",
                           "tcp://[::1]:0", "tcp://[fe80::1%eth0]:65535", "tcp://host-1.name:80"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  EXPECT_EQ(to_string(parse_address("[::1]:7").value()), "tcp://[::1]:7");
  EXPECT_EQ(to_string(parse_address("127.0.0.1:7").value()), "tcp://127.0.0.1:7");
  EXPECT_TRUE(is_local(parse_address("unix:/a").value()));
}

TEST(AddressTest, what_is_no_address_is_refused_with_the_forms_that_are) {
  for (const std::string text :
       {"", "unix:", "unix:@", "tcp://", "host", "host:", "host:65536", "host:-1", "host:7x",
        "::1:9000", "[::1]", "[::1]9000", "[10.0.0.7]:9", "ho st:9", "a/b:9", "http://a:9"}) {
    const auto address = parse_address(text);
    EXPECT_EQ(address.code(), Code::invalid_argument) << text;
    EXPECT_NE(address.status().to_string().find("tcp://[::1]:port"), std::string::npos);
  }
  EXPECT_EQ(parse_address(std::string(256, 'a') + ":9").code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::net
