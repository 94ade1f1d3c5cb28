#include <string>

#include <gtest/gtest.h>

#include <towpath/net/hello.h>
#include <towpath/net/token.h>

namespace towpath::net {
namespace {

TEST(TokenTest, what_is_no_secret_is_refused_and_not_reported) {
  EXPECT_EQ(Token::make("short").code(), Code::invalid_argument);
  EXPECT_EQ(Token::make(std::string(257, 'x')).code(), Code::invalid_argument);
  EXPECT_EQ(Token::from_text("0123456789abcdef").code(), Code::invalid_argument) << "64 bits";
  EXPECT_EQ(Token::from_text("1234567890123456789012345678901234567890").code(),
            Code::invalid_argument);
  EXPECT_TRUE(Token::from_text("00112233445566778899aabbccddeeff").ok());
  EXPECT_TRUE(Token::from_text("bW9yZSB0aGFuIGl0IG5lZWQ").ok());
  EXPECT_EQ(Token::make("hunter2").status().to_string().find("hunter2"), std::string::npos);
}

TEST(HelloTest, who_wants_another_service_is_reported_so) {
  const Bytes sealed = make_hello("cards");
  const ConstByteSpan payload = wire::open(sealed, kHelloLimits)->payload;
  EXPECT_TRUE(check_hello(payload, "cards").ok());
  EXPECT_EQ(check_hello(payload, "bytes").code(), Code::invalid_argument);
  EXPECT_EQ(check_hello(as_bytes("garbage"), "cards").code(), Code::corrupt);
}

TEST(HelloTest, largest_hello_fits_its_limits) {
  EXPECT_TRUE(wire::open(make_hello(std::string(64, 's')), kHelloLimits).ok());
}

}  // namespace
}  // namespace towpath::net
