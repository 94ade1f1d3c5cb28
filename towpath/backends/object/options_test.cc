#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/options.h>

namespace towpath::backends::object {
namespace {

using ::testing::HasSubstr;

TEST(ObjectOptionsTest, a_region_of_china_is_where_amazon_has_it) {
  const auto options = BackendOptions::parse({{"region", "cn-north-1"}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->store.to_string(), "https://s3.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(BackendOptions::parse({{"region", "ca-west-1"}})->store.host,
            "s3.ca-west-1.amazonaws.com");
}

TEST(ObjectOptionsTest, nothing_given_is_amazon_without_credentials) {
  const auto options = BackendOptions::parse({});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->store.to_string(), "https://s3.us-east-1.amazonaws.com");
  EXPECT_TRUE(options->credentials.access_key.empty());
}

TEST(ObjectOptionsTest, names_of_nixl_are_understood) {
  const auto options = BackendOptions::parse({{"access_key", "a"},
                                              {"secret_key", "s"},
                                              {"session_token", "t"},
                                              {"bucket", "cold"},
                                              {"endpoint_override", "store:9000/s3/"},
                                              {"scheme", "http"},
                                              {"region", "eu-1"},
                                              {"use_virtual_addressing", "true"},
                                              {"req_checksum", "supported"},
                                              {"resp_checksum", "supported"},
                                              {"ca_bundle", "/ca"},
                                              {"crtMinLimit", "1M"},
                                              {"throughput_target_gbps", "25"},
                                              {"accelerated", "false"},
                                              {"num_threads", "3"}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  EXPECT_EQ(options->store.to_string(), "http://store:9000/s3");
  EXPECT_EQ(options->store.style, Style::virtual_host);
  EXPECT_EQ(options->credentials.session_token.reveal(), "t");
  EXPECT_EQ(options->connections, 3U);
  EXPECT_EQ(options->multipart_bytes, kMiB);
  EXPECT_TRUE(options->put_checksum && options->check_checksum);
}

TEST(ObjectOptionsTest, certificates_are_looked_at_unless_it_is_said) {
  EXPECT_TRUE(BackendOptions::parse({})->tls.verify);
  EXPECT_FALSE(BackendOptions::parse({{"verify_tls", "false"}})->tls.verify);
  EXPECT_EQ(BackendOptions::parse({{"verify_tls", "no"}}).code(), Code::invalid_argument);
}

TEST(ObjectOptionsTest, what_is_wrong_is_refused_by_name) {
  struct Bad {
    const char* name;
    const char* value;
    Code code = Code::invalid_argument;
  };
  for (const Bad& bad :
       {Bad{"scheme", "ftp"}, Bad{"endpoint_override", "http://"},
        Bad{"endpoint_override", "http://u:p@h"}, Bad{"connections", "0"}, Bad{"part_bytes", "1"},
        Bad{"bucket", "b"}, Bad{"bucket", "evil.com/#"}, Bad{"use_virtual_addressing", "yes"},
        Bad{"accelerated", "true", Code::unsupported}, Bad{"type", "dell", Code::unsupported},
        Bad{"region", "a\nb"}, Bad{"access_key", "alone"}, Bad{"max_attempts", "many"}}) {
    const auto options = BackendOptions::parse({{bad.name, bad.value}});
    EXPECT_EQ(options.code(), bad.code) << bad.name << "=" << bad.value;
  }
}

TEST(ObjectOptionsTest, a_secret_that_is_wrong_is_not_reported) {
  const auto options = BackendOptions::parse({{"access_key", "a"}, {"secret_key", "hush\nhush"}});
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(options.status().to_string(), Not(HasSubstr("hush")));
}

TEST(ObjectOptionsTest, given_parameters_win_and_credentials_are_taken_together) {
  const backend::Params usual = {
      {"access_key", "usual"}, {"secret_key", "us"}, {"session_token", "ut"}, {"region", "usual"}};
  const backend::Params own = merge(usual, {{"access_key", "own"}, {"secret_key", "os"}});
  EXPECT_EQ(own,
            (backend::Params{{"access_key", "own"}, {"secret_key", "os"}, {"region", "usual"}}));
  EXPECT_EQ(merge(usual, {{"region", "r"}}).at("region"), "r");
  EXPECT_EQ(merge(usual, {}).at("session_token"), "ut");
}

TEST(StoreAddressTest, a_port_alone_is_no_address) {
  for (const char* url : {":443", "https://:443", "http://:9000/base"})
    EXPECT_EQ(StoreAddress::parse(url, "https").code(), Code::invalid_argument) << url;
}

TEST(StoreAddressTest, objects_have_a_place_in_either_style) {
  StoreAddress address = *StoreAddress::parse("http://h:80/base", "https");
  const ObjectName name{"bucket", "a b/c"};
  Target target = address.target(name);
  EXPECT_EQ(target.host, "h") << "the scheme's own port is not said";
  EXPECT_EQ(target.path, "/base/bucket/a%20b/c");
  EXPECT_EQ(address.target({"bucket", ""}).path, "/base/bucket");
  address.style = Style::virtual_host;
  target = address.target(name);
  EXPECT_EQ(target.host, "bucket.h");
  EXPECT_EQ(target.path, "/base/a%20b/c");
}

TEST(ObjectNameTest, regions_name_objects) {
  const auto named = [](std::string key, std::string bucket = "own") {
    return ObjectName::of({.kind = MemoryKind::object, .device_id = 17, .key = std::move(key)},
                          bucket);
  };
  EXPECT_EQ(*named("a/b"), (ObjectName{"own", "a/b"}));
  EXPECT_EQ(*named("s3://cold/a/b"), (ObjectName{"cold", "a/b"}));
  EXPECT_EQ(*named(""), (ObjectName{"own", "17"})) << "as NIXL names it";
  EXPECT_EQ(to_string(*named("a\n")), "s3://own/a\\x0a");
  for (const char* bad : {"s3://cold", "s3://cold/", "s3:///k", "s3://a/k"})
    EXPECT_EQ(named(bad).code(), Code::invalid_argument) << bad;
  EXPECT_EQ(named("k", "").code(), Code::invalid_argument);
  EXPECT_EQ(named("k", "a/../b").code(), Code::invalid_argument);
  EXPECT_EQ(named(std::string(1025, 'x')).code(), Code::invalid_argument);
}

TEST(ObjectNameTest, no_bucket_ends_its_part_of_a_url) {
  for (const char letter : std::string_view("/\\#?@:%&=+,;!*'()[] \t\r\n\x7f\xc3")) {
    const std::string bucket = cat("evil.example", letter, "x");
    EXPECT_EQ(check_bucket(bucket, Style::path).code(), Code::invalid_argument) << bucket;
    EXPECT_EQ(check_bucket(bucket, Style::virtual_host).code(), Code::invalid_argument) << bucket;
    const RegionDescriptor region{.kind = MemoryKind::object, .key = cat("s3://", bucket, "/k")};
    const auto name = ObjectName::of(region, "own");
    EXPECT_EQ(name.code(), letter == '/' ? Code::ok : Code::invalid_argument) << bucket;
  }
  EXPECT_TRUE(check_bucket("a.b-c-9", Style::virtual_host).ok());
  for (const char* old : {"Old_Bucket", "old_bucket", "OLD"}) {
    EXPECT_TRUE(check_bucket(old, Style::path).ok()) << old;
    EXPECT_EQ(check_bucket(old, Style::virtual_host).code(), Code::invalid_argument)
        << "a host's name has one case: another bucket would be meant";
  }
}

TEST(RetryTest, delays_double_within_their_bounds) {
  const RetryPolicy policy;
  for (std::uint32_t attempts = 1; attempts < 200; ++attempts) {
    const Duration doubled = policy.first_delay * (1LL << std::min(attempts - 1, 20U));
    const Duration most = std::min(policy.longest_delay, doubled);
    for (const std::uint64_t random : {std::uint64_t{0}, std::uint64_t{12345}, UINT64_MAX}) {
      const Duration delay = policy.delay(attempts, random);
      EXPECT_GE(delay, most / 2) << attempts;
      EXPECT_LE(delay, most) << attempts;
    }
  }
  EXPECT_NE(policy.delay(3, 1'000'000), policy.delay(3, 2'000'000)) << "no jitter";
  EXPECT_TRUE(policy.allows_another(4));
  EXPECT_FALSE(policy.allows_another(5));
}

TEST(RetryTest, the_longest_first_delay_does_not_overflow_at_the_last_attempt) {
  const auto options =
      BackendOptions::parse({{"retry_delay_ms", "60000"}, {"max_attempts", "100"}});
  ASSERT_TRUE(options.ok()) << options.status().to_string();
  for (std::uint32_t attempts = 1; attempts <= 100; ++attempts) {
    EXPECT_EQ(options->retry.delay(attempts, 0), std::chrono::seconds(30)) << attempts;
    EXPECT_LE(options->retry.delay(attempts, UINT64_MAX), std::chrono::seconds(60)) << attempts;
  }
}

TEST(RetryTest, what_the_store_asks_for_is_heeded_within_reason) {
  const RetryPolicy policy;
  EXPECT_EQ(policy.delay(1, 0, std::chrono::seconds(3)), std::chrono::seconds(3));
  EXPECT_EQ(policy.delay(1, 0, std::chrono::hours(3)), policy.longest_delay);
}

}  // namespace
}  // namespace towpath::backends::object
