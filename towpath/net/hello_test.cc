#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <towpath/net/hello.h>

namespace towpath::net {
namespace {

const std::string kSecret = "0123456789abcdef";

Token token(std::string_view secret) { return Token::make(secret).value(); }

Status reported(const std::optional<Token>& theirs, const std::optional<Token>& ours,
                std::string_view service = "cards") {
  const Bytes sealed = make_hello("cards", theirs);
  return check_hello(wire::open(sealed, kHelloLimits)->payload, service, ours);
}

TEST(TokenTest, only_the_whole_secret_matches) {
  const Token ours = token(kSecret);
  EXPECT_TRUE(ours.matches(kSecret));
  for (const std::string& other :
       {std::string(), kSecret + "x", kSecret.substr(1), std::string("0123456789abcdeF"),
        std::string("X123456789abcdef"), kSecret + std::string(1, '\0'), std::string(1000, 'x')})
    EXPECT_FALSE(ours.matches(other)) << other;
  EXPECT_FALSE(token(std::string(256, 'x')).matches(std::string(257, 'x')));
}

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

TEST(HelloTest, token_opens_the_door_and_nothing_else_does) {
  EXPECT_TRUE(reported(token(kSecret), token(kSecret)).ok());
  EXPECT_TRUE(reported({}, {}).ok());
  EXPECT_TRUE(reported(token(kSecret), {}).ok()) << "who asks for none takes any";
  EXPECT_EQ(reported({}, token(kSecret)).code(), Code::denied);
  const Status wrong = reported(token("another secret 1"), token(kSecret));
  EXPECT_EQ(wrong.code(), Code::denied);
  EXPECT_EQ(wrong.to_string().find("secret 1"), std::string::npos) << "it is never printed";
}

TEST(HelloTest, who_wants_another_service_is_reported_so) {
  EXPECT_EQ(reported({}, {}, "bytes").code(), Code::invalid_argument);
}

TEST(HelloTest, largest_hello_fits_its_limits) {
  const Bytes sealed = make_hello(std::string(64, 's'), token(std::string(256, 't')));
  EXPECT_TRUE(wire::open(sealed, kHelloLimits).ok());
  EXPECT_EQ(check_hello(as_bytes("garbage"), "cards", {}).code(), Code::corrupt);
}

}  // namespace
}  // namespace towpath::net
