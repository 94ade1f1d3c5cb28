#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/standard/metadata_security.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

TEST(MetadataSecurityTest, shared_token_lies_where_only_this_user_can_be) {
  const auto directory = sys::TemporaryDirectory::create().value();
  EXPECT_EQ(shared_token_file({{"XDG_RUNTIME_DIR", directory.path()}}),
            cat(directory.path(), "/towpath/token"));
  const std::string fallback = shared_token_file({});
  EXPECT_THAT(fallback, testing::AnyOf(cat("/run/user/", geteuid(), "/towpath/token"),
                                       cat("/tmp/towpath-", geteuid(), "/token")));
  EXPECT_EQ(shared_token_file({{"XDG_RUNTIME_DIR", "/none/such"}}), fallback);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory.path().c_str(), 65534, 65534), 0);
    EXPECT_EQ(shared_token_file({{"XDG_RUNTIME_DIR", directory.path()}}), fallback)
        << "another user's, as after sudo -E";
  }
}

TEST(MetadataSecurityTest, token_is_made_once_and_found_by_the_next) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const MetadataSecurity security{.shared_token_file = directory.file("towpath/token")};
  EXPECT_TRUE(security.is_of_this_host());
  const auto first = tls_provider(security);
  ASSERT_TRUE(first().ok()) << first().status().to_string();
  EXPECT_EQ(first().value(), first().value()) << "kept";
  std::string text;
  std::getline(std::ifstream(security.shared_token_file), text);
  EXPECT_EQ(text.size(), 64U) << "256 bits";
  EXPECT_TRUE(tls_provider(security)().ok());
  EXPECT_TRUE(read_token(security.shared_token_file)->matches(text));
}

TEST(MetadataSecurityTest, what_proves_nothing_is_refused_by_name) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const std::string path = directory.file("token");
  std::ofstream(path) << "0123456789abcdef\n";
  const Status refused = read_token(path).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(refused.to_string(), testing::HasSubstr("worth 64 bits"));
  EXPECT_EQ(refused.to_string().find("0123456789"), std::string::npos);
  EXPECT_EQ(read_token(directory.file("none")).code(), Code::not_found);
  const MetadataSecurity both{.token = net::Token::make("0123456789abcdef").value(),
                              .certificates = {.certificate_file = path}};
  EXPECT_EQ(tls_provider(both)().code(), Code::invalid_argument);
  EXPECT_FALSE(both.is_of_this_host());
}

}  // namespace
}  // namespace towpath::standard
