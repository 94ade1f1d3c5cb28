// Against gateways that are answered by hand. What a real etcd says: etcd_rendezvous_test.cc.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/rendezvous/etcd_client.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/test_gateway.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>

namespace towpath::rendezvous::etcd {
namespace {

using testing::ElementsAre;

constexpr const char* kCreated = R"({"result":{"created":true}})";

class EtcdClientTest : public testing::Test {
 protected:
  void open(Login login = {}) {
    client =
        Client::open({.endpoints = {first.url(), second.url()}, .login = std::move(login)}).value();
  }
  template <typename Condition>
  bool soon(Condition condition) {
    return run::eventually([&] {
      client->progress();
      return condition();
    });
  }
  TestGateway::Request next(TestGateway& at) {
    std::optional<TestGateway::Request> came;
    EXPECT_TRUE(soon([&] { return (came = at.take()).has_value(); }));
    return came.value_or(TestGateway::Request());
  }
  void call() {
    client->call(range({.key = "k"}),
                 [&](const Result<std::string>& body) { answers.push_back(body.code()); });
  }
  void stream() {
    client->stream(
        watch({.key = "k", .end = "l", .revision = 5}),
        [&](std::string_view heard) {
          lines.emplace_back(heard);
          return Status();
        },
        [&](const Result<std::string>& why) { ended = why.code(); });
  }

  const std::string line = kCreated;
  TestGateway first, second;
  std::unique_ptr<Client> client;
  std::vector<Code> answers;
  std::vector<std::string> lines;
  std::optional<Code> ended;
};

TEST_F(EtcdClientTest, stream_that_breaks_is_not_begun_again_elsewhere) {
  open();
  stream();
  const auto asked = next(first);
  first.begin_stream(asked);
  first.say(asked, line + "\n{\"res");
  ASSERT_TRUE(soon([&] { return !lines.empty(); }));
  first.hang_up(asked);
  ASSERT_TRUE(soon([&] { return ended.has_value(); }));
  EXPECT_EQ(ended, Code::unavailable);
  EXPECT_FALSE(second.take().has_value());
  EXPECT_THAT(lines, ElementsAre(line));
  call();
  EXPECT_EQ(next(second).path, "/v3/kv/range") << "the next one is asked from now on";
}

TEST_F(EtcdClientTest, refusal_of_an_old_token_is_no_part_of_the_stream) {
  open({"user", "password"});
  stream();
  first.reply(next(first), R"({"token":"old"})");
  first.reply(next(first), R"({"error":"etcdserver: invalid auth token","code":16})", 401);
  const auto login = next(first);
  EXPECT_EQ(login.path, "/v3/auth/authenticate");
  first.reply(login, R"({"token":"new"})");
  const auto asked = next(first);
  EXPECT_EQ(asked.path, "/v3/watch");
  first.begin_stream(asked);
  first.say(asked, line + "\n");
  ASSERT_TRUE(soon([&] { return !lines.empty(); }));
  EXPECT_THAT(lines, ElementsAre(line));
}

TEST_F(EtcdClientTest, endpoint_is_left_once_for_all_that_it_fails) {
  open();
  call();
  call();
  const auto one = next(first);
  const auto other = next(first);
  first.hang_up(one);
  first.hang_up(other);
  second.reply(next(second), "{}");
  second.reply(next(second), "{}");
  ASSERT_TRUE(soon([&] { return answers.size() == 2; }));
  EXPECT_THAT(answers, ElementsAre(Code::ok, Code::ok));
  EXPECT_EQ(client->endpoint(), second.url());
}

TEST_F(EtcdClientTest, failure_of_a_server_is_no_answer) {
  open();
  call();
  first.reply(next(first), R"({"error":"etcdserver: no leader","code":14})", 503);
  second.reply(next(second), "{}");
  ASSERT_TRUE(soon([&] { return answers.size() == 1; }));
  call();
  second.reply(next(second), "<html>", 502);
  first.reply(next(first), R"({"error":"etcdserver: request timed out","code":14})", 503);
  ASSERT_TRUE(soon([&] { return answers.size() == 2; }));
  EXPECT_THAT(answers, ElementsAre(Code::ok, Code::unavailable)) << "all have been asked";
}

TEST_F(EtcdClientTest, endpoint_that_stands_still_has_no_more_than_its_turn) {
  client = Client::open(
               {.endpoints = {first.url(), second.url()}, .call_timeout = std::chrono::hours(1)})
               .value();
  client->call(
      range({.key = "k"}), [&](const Result<std::string>& body) { answers.push_back(body.code()); },
      std::chrono::milliseconds(100));
  second.reply(next(second), "{}");
  ASSERT_TRUE(soon([&] { return answers.size() == 1; }));
  EXPECT_THAT(answers, ElementsAre(Code::ok));
}

TEST_F(EtcdClientTest, stream_ends_when_its_endpoint_is_left) {
  open();
  stream();
  const auto asked = next(first);
  first.begin_stream(asked);
  first.say(asked, line + "\n");
  ASSERT_TRUE(soon([&] { return !lines.empty(); }));
  call();
  first.hang_up(next(first));
  second.reply(next(second), "{}");
  ASSERT_TRUE(soon([&] { return ended.has_value() && !answers.empty(); }));
  EXPECT_EQ(ended, Code::unavailable);
  EXPECT_THAT(answers, ElementsAre(Code::ok));
}

// The rendezvous, over two gateways of which the first will stand still.
class EtcdEndpointsTest : public testing::Test {
 protected:
  template <typename Condition>
  bool soon(Condition condition) {
    return run::eventually([&] {
      here->progress();
      return condition();
    });
  }
  TestGateway::Request next(TestGateway& at, std::string_view path) {
    std::optional<TestGateway::Request> came;
    EXPECT_TRUE(soon([&] { return (came = at.take(path)).has_value(); })) << path;
    return came.value_or(TestGateway::Request());
  }

  TestGateway first, second;
  const sys::SystemClock clock;
  std::unique_ptr<EtcdRendezvous> here =
      EtcdRendezvous::open({.client = {.endpoints = {first.url(), second.url()},
                                       .call_timeout = std::chrono::hours(1)},
                            .lease_ttl = std::chrono::seconds(1),
                            .farewell_timeout = Duration::zero()},
                           clock)
          .value();
};

TEST_F(EtcdEndpointsTest, lease_is_kept_at_the_next_endpoint_while_it_lives) {
  ASSERT_TRUE(here->publish("a", as_bytes("a's")).ok());
  first.reply(next(first, "/v3/lease/grant"), R"({"ID":"7","TTL":"1"})");
  first.reply(next(first, "/v3/kv/put"), "{}");
  EXPECT_THAT(next(second, "/v3/lease/keepalive").body, testing::HasSubstr(R"("7")"));
}

constexpr std::string_view kNone = R"({"header":{"revision":"5"}})";

TEST_F(EtcdEndpointsTest, trouble_of_an_agent_that_only_watches_is_over_when_its_stream_is_heard) {
  here = EtcdRendezvous::open({.client = {.endpoints = {first.url()}},
                               .lease_ttl = std::chrono::hours(1),
                               .farewell_timeout = Duration::zero()},
                              clock)
             .value();
  here->watch([](const Change&) {});
  first.reply(next(first, "/v3/kv/range"), R"({"error":"etcdserver: permission denied","code":7})",
              403);
  ASSERT_TRUE(soon([&] { return here->standing().trouble.code() == Code::denied; }));
  first.reply(next(first, "/v3/kv/range"), kNone);
  const auto stream = next(first, "/v3/watch");
  first.begin_stream(stream);
  first.say(stream, cat(kCreated, "\n"));
  EXPECT_TRUE(soon([&] { return here->standing().trouble.ok(); }));
}

TEST_F(EtcdEndpointsTest, an_agent_that_only_watches_goes_on_where_etcd_answers) {
  here->watch([](const Change&) {});
  first.reply(next(first, "/v3/kv/range"), kNone);
  const auto stream = next(first, "/v3/watch");
  first.begin_stream(stream);
  first.say(stream, cat(kCreated, "\n"));
  EXPECT_TRUE(soon([&] {
    if (const auto asked = second.take("/v3/kv/range")) second.reply(*asked, kNone);
    return second.take("/v3/watch").has_value();
  }));
}

}  // namespace
}  // namespace towpath::rendezvous::etcd
