// Against gateways that are answered by hand. What a real etcd says: etcd_rendezvous_test.cc.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/rendezvous/etcd_client.h>
#include <towpath/rendezvous/test_gateway.h>
#include <towpath/run/eventually.h>

namespace towpath::rendezvous::etcd {
namespace {

using testing::ElementsAre;

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

  const std::string line = R"({"result":{"created":true}})";
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

}  // namespace
}  // namespace towpath::rendezvous::etcd
