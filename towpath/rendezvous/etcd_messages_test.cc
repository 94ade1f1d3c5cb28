#include <string>

#include <gtest/gtest.h>

#include <towpath/core/clock.h>
#include <towpath/rendezvous/etcd_keys.h>
#include <towpath/rendezvous/etcd_messages.h>

namespace towpath::rendezvous::etcd {
namespace {

TEST(EtcdMessagesTest, calls_are_what_the_gateway_takes) {
  EXPECT_EQ(put({.key = "k", .value = as_bytes("v"), .lease = 7}).body,
            R"({"key":"aw==","lease":"7","value":"dg=="})");
  EXPECT_EQ(range({.key = "k", .end = "l", .revision = 5, .limit = 2, .keys_only = true}).body,
            R"({"key":"aw==","keys_only":true,"limit":"2","range_end":"bA==","revision":"5"})");
  EXPECT_EQ(remove("k", 7).path, "/v3/kv/txn");
  EXPECT_EQ(remove("k", 7).body, R"({"compare":[{"key":"aw==","lease":"7","target":"LEASE"}],)"
                                 R"("success":[{"request_delete_range":{"key":"aw=="}}]})");
  EXPECT_EQ(grant(std::chrono::seconds(10)).body, R"({"TTL":"10"})");
  EXPECT_EQ(watch({.key = "k", .end = "l", .revision = 5}).body,
            R"({"create_request":{"key":"aw==","range_end":"bA==","start_revision":"5"}})");
  EXPECT_EQ(authenticate({"u", "p\"\xff"}).path, "/v3/auth/authenticate");
}

TEST(EtcdMessagesTest, answers_are_read) {
  const auto reply = parse_range(
      R"({"header":{"revision":"12"},"kvs":[{"key":"aw==","value":"dg==","mod_revision":"9",)"
      R"("lease":"7"},{"key":"bA=="}],"more":true,"count":"2"})");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->revision, 12);
  EXPECT_TRUE(reply->more);
  ASSERT_EQ(reply->pairs.size(), 2U);
  EXPECT_EQ(reply->pairs[0].key, "k");
  EXPECT_EQ(reply->pairs[0].value, to_bytes("v"));
  EXPECT_EQ(reply->pairs[0].mod_revision, 9);
  EXPECT_EQ(reply->pairs[0].lease, 7);
  EXPECT_TRUE(reply->pairs[1].value.empty());
  EXPECT_EQ(parse_grant(R"({"ID":"7","TTL":"10"})")->ttl.count(), 10);
  EXPECT_EQ(parse_keep_alive(R"({"result":{"ID":"7","TTL":"9"}})")->ttl.count(), 9);
  EXPECT_EQ(parse_keep_alive(R"({"result":{"ID":"7"}})")->ttl.count(), 0) << "it is no more";
  for (const auto& longest :
       {parse_grant(R"({"ID":"7","TTL":"9223372036854775807"})"),
        parse_keep_alive(R"({"result":{"ID":"7","TTL":"9223372036854775807"}})")})
    EXPECT_EQ(Duration(longest->ttl), std::chrono::seconds(9'000'000'000)) << "no more fits";
  EXPECT_EQ(parse_token(R"({"token":"abc.1"})").value(), "abc.1");
  EXPECT_EQ(parse_token("{\"token\":\"a\\r\\nX: y\"}").code(), Code::corrupt);
}

TEST(EtcdMessagesTest, stream_of_a_watch_is_read) {
  EXPECT_TRUE(parse_watch(R"({"result":{"created":true}})")->events.empty());
  const auto reply = parse_watch(R"({"result":{"events":[{"kv":{"key":"aw==","value":"dg=="}},)"
                                 R"({"type":"DELETE","kv":{"key":"bA=="}}]}})");
  ASSERT_EQ(reply->events.size(), 2U);
  EXPECT_FALSE(reply->events[0].removed);
  EXPECT_TRUE(reply->events[1].removed);
  const auto compacted = parse_watch(R"({"result":{"canceled":true,"compact_revision":"5"}})");
  EXPECT_TRUE(compacted->ended);
  EXPECT_NE(compacted->why.find("compacted"), std::string::npos);
  EXPECT_TRUE(parse_watch(R"({"error":{"message":"no"}})")->ended);
}

TEST(EtcdMessagesTest, what_is_no_answer_is_called_corrupt) {
  for (const char* bad : {"", "null", "[]", "{", "<html>", R"({"header":1})", R"({"result":[1]})",
                          R"({"header":{"revision":"1"},"kvs":[{"key":"!"}]})",
                          R"({"header":{"revision":"99999999999999999999"}})"}) {
    EXPECT_EQ(parse_range(bad).code(), Code::corrupt) << bad;
    EXPECT_EQ(parse_grant(bad).code(), Code::corrupt) << bad;
    EXPECT_EQ(parse_watch(bad).code(), Code::corrupt) << bad;
    EXPECT_EQ(parse_token(bad).code(), Code::corrupt) << bad;
  }
  EXPECT_EQ(parse_watch(R"({"result":{"events":[1,{"kv":3}]}})")->events.size(), 2U);
  EXPECT_EQ(parse_watch(std::string(100'000, '[')).code(), Code::corrupt);
}

TEST(EtcdMessagesTest, failures_have_codes_to_act_on) {
  const auto code = [](int number, std::string_view said) {
    return parse_failure(400, cat(R"({"error":")", said, R"(","code":)", number, "}")).code();
  };
  EXPECT_EQ(code(5, "etcdserver: requested lease not found"), Code::not_found);
  EXPECT_EQ(code(16, "etcdserver: invalid auth token"), Code::not_ready);
  EXPECT_EQ(code(3, "etcdserver: invalid auth token"), Code::not_ready);
  EXPECT_EQ(code(3, "etcdserver: revision of auth store is old"), Code::not_ready);
  EXPECT_EQ(code(3, "etcdserver: authentication failed, invalid user ID or password"),
            Code::denied);
  EXPECT_EQ(code(3, "etcdserver: request is too large"), Code::out_of_range);
  EXPECT_EQ(code(7, "etcdserver: permission denied"), Code::denied);
  EXPECT_EQ(code(14, "etcdserver: no leader"), Code::unavailable);
  EXPECT_EQ(parse_failure(502, "<html>").code(), Code::unavailable);
  EXPECT_EQ(parse_failure(404, "<html>").code(), Code::corrupt);
}

TEST(EtcdMessagesTest, end_of_a_prefix_is_the_next_key) {
  EXPECT_EQ(end_of_prefix("/a/"), "/a0");
  EXPECT_EQ(end_of_prefix("a\xff"), "b");
  EXPECT_EQ(end_of_prefix("\xff"), std::string(1, '\0'));
}

TEST(EtcdKeysTest, every_name_has_a_key_and_back) {
  const Keys keys = Keys::in("/towpath/job/").value();
  EXPECT_EQ(keys.key("decode-0"), "/towpath/job/decode-0/metadata");
  EXPECT_EQ(keys.key({"a/b", "x y"}), "/towpath/job/a%2fb/part/x%20y");
  for (const MetadataName& name :
       {MetadataName("a"), MetadataName("card"), MetadataName("a", "card"),
        MetadataName(std::string("\0/\xff..%", 6), "part/"), MetadataName("..")})
    EXPECT_EQ(keys.name(keys.key(name)), name);
}

TEST(EtcdKeysTest, other_keys_are_not_metadata) {
  const Keys keys = Keys::in("/t").value();
  for (const char* key :
       {"", "/t", "/t/", "/t/a", "/t/a/", "/t//metadata", "/t/a/part/", "/t/a/metadatas",
        "/t/%zz/metadata", "/t/%2/metadata", "/t/%41/metadata", "/x/a/metadata", "/t/a/part/b/c"})
    EXPECT_FALSE(keys.name(key).has_value()) << key;
  for (const std::string& bad :
       {std::string(), std::string("/"), std::string("a\0b", 3), std::string(600, 'x')})
    EXPECT_EQ(Keys::in(bad).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::rendezvous::etcd
