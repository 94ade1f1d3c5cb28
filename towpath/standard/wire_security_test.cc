#include <gtest/gtest.h>

#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/standard/wire_security.h>

namespace towpath::standard {
namespace {

/// A type that only notes what it is opened with.
class WireSecurityTest : public ::testing::Test {
 protected:
  backend::BackendType type() {
    backend::BackendType type = backends::loopback::loopback_type();
    type.name = "wire";
    type.open = [this](const backend::BackendContext& context) {
      opened_with_ = context.params;
      return Result<std::unique_ptr<backend::Backend>>(error(Code::not_ready, "only asked"));
    };
    return type;
  }
  std::function<Result<Environment>()> environment() {
    return [this] { return Result(environment_); };
  }

  Environment environment_;
  backend::Params opened_with_;
};

TEST_F(WireSecurityTest, what_the_environment_asks_for_reaches_the_backend) {
  const auto wire = with_wire_security(type(), environment());
  (void)wire.open({});
  EXPECT_EQ(opened_with_.count("security"), 0U);
  environment_ = {{"TOWPATH_SECURITY", "tls"}};
  (void)wire.open({});
  EXPECT_EQ(opened_with_.at("security"), "tls");
  (void)wire.open({.params = {{"security", "authenticated"}}});
  EXPECT_EQ(opened_with_.at("security"), "authenticated") << "the parameter has precedence";
}

TEST_F(WireSecurityTest, the_certificates_of_the_process_are_those_of_its_wires_in_tls) {
  const auto wire = with_wire_security(type(), environment());
  environment_ = {{"TOWPATH_TLS_CERT_FILE", "own.pem"},
                  {"TOWPATH_TLS_KEY_FILE", "own.key"},
                  {"TOWPATH_TLS_CA_FILE", "ca.pem"}};
  (void)wire.open({});
  EXPECT_EQ(opened_with_, backend::Params()) << "no TLS was asked for";
  (void)wire.open({.params = {{"security", "tls"}}});
  EXPECT_EQ(opened_with_,
            (backend::Params{
                {"security", "tls"}, {"cert", "own.pem"}, {"key", "own.key"}, {"ca", "ca.pem"}}));
  environment_["TOWPATH_SECURITY"] = "tls";
  (void)wire.open({.params = {{"cert", "its.pem"}}});
  EXPECT_EQ(opened_with_, (backend::Params{{"security", "tls"}, {"cert", "its.pem"}}))
      << "parameters have precedence, as a whole";
}

TEST_F(WireSecurityTest, what_cannot_encrypt_is_refused_by_name) {
  const auto wire = refused_where_encrypted(type(), environment());
  EXPECT_EQ(wire.open({}).code(), Code::not_ready);
  environment_ = {{"TOWPATH_SECURITY", "tls"}};
  const auto refused = wire.open({});
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_EQ(refused.status().message(),
            "wire: TOWPATH_SECURITY=tls is set, and UCX does not encrypt");
  environment_ = {{"TOWPATH_SECURITY", "authenticated"}};
  EXPECT_EQ(wire.open({}).code(), Code::not_ready);
}

TEST_F(WireSecurityTest, where_it_cannot_be_read_what_is_asked_for_no_wire_is_opened) {
  const auto unreadable = [] { return Result<Environment>(error(Code::denied, "a file")); };
  EXPECT_EQ(with_wire_security(type(), unreadable).open({}).code(), Code::denied);
  EXPECT_EQ(refused_where_encrypted(type(), unreadable).open({}).code(), Code::denied);
}

TEST_F(WireSecurityTest, a_value_that_means_nothing_opens_no_wire_without_encryption) {
  environment_ = {{"TOWPATH_SECURITY", "TLS"}};
  EXPECT_EQ(refused_where_encrypted(type(), environment()).open({}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::standard
