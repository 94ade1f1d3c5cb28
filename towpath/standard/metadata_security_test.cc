#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
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
  EXPECT_EQ(read_token(security.shared_token_file)->secret(), text);
}

TEST(EtcdTokenTest, metadata_are_in_plain_text_nowhere) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const std::string own = directory.file("towpath/token");
  const std::string given = directory.file("given");
  std::ofstream(given) << "a secret that all agents share\n";
  using Endpoints = std::vector<std::string>;
  const auto token = [&](const Endpoints& endpoints, std::optional<std::string> file = {}) {
    return etcd_token(file, endpoints, own);
  };
  EXPECT_FALSE(token({"https://etcd:2379", "https://b"}).value()) << "TLS does";
  EXPECT_TRUE(token({"https://etcd:2379"}, given).value()) << "unless one is given";
  EXPECT_EQ(token({"http://etcd:2379"}, given).value()->secret(), "a secret that all agents share");
  for (const std::string at :
       {"http://127.0.0.1:2379", "http://127.3.2.1:1/", "localhost:2379", "http://[::1]:2379"})
    EXPECT_TRUE(token({at, "https://etcd:1"}).value()) << at << ": this user's own";
  for (const std::string at : {"http://10.0.0.1:2379", "http://etcd:2379",
                               "http://127.0.0.1.example.org:2379", "", "http://"}) {
    const Status refused = token({"http://127.0.0.1:2379", at}).status();
    EXPECT_EQ(refused.code(), Code::denied) << at;
    EXPECT_THAT(refused.to_string(), testing::HasSubstr("TOWPATH_TOKEN_FILE"));
  }
  EXPECT_EQ(token({"https://etcd:1"}, directory.file("none")).code(), Code::not_found);
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
