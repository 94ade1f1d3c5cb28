// The backend and a store behind TLS: whom it believes, and what it says when it does not.
#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/testing/object_fixture.h>
#include <towpath/backends/object/testing/script_server.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::backends::object {
namespace {

using ::testing::HasSubstr;
using testing::ScriptServer;

/// A certificate of 127.0.0.1 that only itself vouches for, and a front with it.
struct Front {
  Front() {
    made =
        std::system(cat("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
                        "-nodes -days 2 -subj /CN=t -addext subjectAltName=IP:127.0.0.1 -keyout ",
                        key, " -out ", certificate, " 2>/dev/null")
                        .c_str()) == 0;
    if (made)
      server.emplace(
          std::vector{std::string(TOWPATH_TLS_FRONT), certificate, key, testing::swift().port()});
  }

  sys::TemporaryDirectory folder = *sys::TemporaryDirectory::create();
  const std::string certificate = folder.path() + "/cert.pem";
  const std::string key = folder.path() + "/key.pem";
  bool made = false;
  std::optional<ScriptServer> server;
};

class TlsTest : public testing::ObjectFixture {
 protected:
  void SetUp() override {
    ObjectFixture::SetUp();
    if (IsSkipped()) return;
    if (!front().made) GTEST_SKIP() << "no certificate: apt-get install openssl";
  }
  /// Of the whole suite; its end takes the key away again.
  static const Front& front() {
    if (!front_) front_.emplace();
    return *front_;
  }
  static void TearDownTestSuite() { front_.reset(); }
  static const std::string& certificate() { return front().certificate; }

  void open_with(backend::Params more, const std::string& host = "127.0.0.1") {
    more.emplace("endpoint_override", cat("https://", host, ":", front().server->port()));
    more.emplace("max_attempts", "1");
    open(more);
  }
  Status write_one() { return write({segment(object("o", 1000), 0, 1000)}).status; }

 private:
  inline static std::optional<Front> front_;
};

TEST_F(TlsTest, a_store_whose_authority_is_named_is_believed) {
  open_with({{"ca_bundle", certificate()}});
  const Status wrote = write_one();
  EXPECT_TRUE(wrote.ok()) << wrote.to_string();
  EXPECT_EQ(in_store("o"), Bytes(memory.begin(), memory.begin() + 1000));
  const auto got = read({segment(object("o", 1000), 0, 1000, 5000)});
  EXPECT_TRUE(got.status.ok()) << got.status.to_string();
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + 1000, memory.begin() + 5000));
  EXPECT_EQ(log.count_of("certificate"), 0U);
}

TEST_F(TlsTest, a_store_that_nobody_vouches_for_is_not) {
  open_with({});
  const Status wrote = write_one();
  EXPECT_EQ(wrote.code(), Code::denied) << wrote.to_string();
  EXPECT_THAT(wrote.to_string(), HasSubstr("certificate"));
  EXPECT_TRUE(in_store("o").empty());
}

TEST_F(TlsTest, a_certificate_of_another_name_is_not_enough) {
  open_with({{"ca_bundle", certificate()}}, "localhost");
  EXPECT_EQ(write_one().code(), Code::denied);
}

TEST_F(TlsTest, without_looking_everybody_is_believed_and_the_log_says_so) {
  open_with({{"verify_tls", "false"}}, "localhost");
  const Status wrote = write_one();
  EXPECT_TRUE(wrote.ok()) << wrote.to_string();
  EXPECT_EQ(log.count_of("certificate is not verified"), 1U);
}

}  // namespace
}  // namespace towpath::backends::object
