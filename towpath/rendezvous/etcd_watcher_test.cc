// Against a gateway that is answered by hand, in an order that a real etcd takes rarely.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/net/base64.h>
#include <towpath/rendezvous/etcd_watcher.h>
#include <towpath/rendezvous/test_gateway.h>
#include <towpath/run/eventually.h>

namespace towpath::rendezvous::etcd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EtcdWatcherTest : public testing::Test {
 protected:
  using Request = TestGateway::Request;

  template <typename Condition>
  bool soon(Condition condition) {
    return run::eventually([&] {
      client->progress();
      return condition();
    });
  }
  Request next(const std::string& path) {
    std::optional<Request> came;
    EXPECT_TRUE(soon([&] { return (came = gateway.take(path)).has_value(); })) << path;
    return came.value_or(Request());
  }
  std::string coded(std::string_view text) { return net::to_base64(as_bytes(text)); }
  std::string pair(const std::string& agent, int revision, std::string_view value = {},
                   int lease = 1) {
    return cat(R"({"key":")", coded(keys.key(agent)), R"(","value":")", coded(value),
               R"(","mod_revision":")", revision, R"(","lease":")", lease, R"("})");
  }
  static std::string pairs(int revision, const std::string& all) {
    return cat(R"({"header":{"revision":")", revision, R"("},"kvs":[)", all, "]}");
  }
  void say(const Request& stream, const std::string& changed) {
    gateway.say(stream, cat(R"({"result":{"events":[{"kv":)", changed, "}]}}\n"));
  }
  /// It lists, and hears that there is `all`. The stream that it opens then.
  Request begin(int revision, const std::string& all) {
    watcher.start();
    gateway.reply(next("/v3/kv/range"), pairs(revision, all));
    const Request stream = next("/v3/watch");
    gateway.begin_stream(stream);
    return stream;
  }

  TestGateway gateway;
  std::unique_ptr<Client> client = Client::open({.endpoints = {gateway.url()}}).value();
  const Keys keys = Keys::in("/t").value();
  const ManualClock clock;
  std::vector<std::string> seen;
  Status failed;
  Watcher watcher{*client,
                  keys,
                  clock,
                  {.is_mine = [](LeaseId) { return false; },
                   .report =
                       [this](const Change& change) {
                         seen.push_back(cat(change.name.agent, " ",
                                            change.metadata ? as_text(*change.metadata) : "gone"));
                       },
                   .answered = [] {},
                   .failed = [this](const Status& why) { failed = why; },
                   .grace = std::chrono::seconds(1),
                   .most_keys = 3}};
};

TEST_F(EtcdWatcherTest, what_is_known_already_is_not_reported_again) {
  const Request stream = begin(10, pair("a", 7));
  say(stream, pair("a", 7, "known"));
  say(stream, pair("a", 11, "new"));
  say(stream, pair("a", 11, "new"));
  say(stream, pair("b", 12, "other"));
  ASSERT_TRUE(soon([&] { return !seen.empty() && seen.back() == "b other"; }));
  EXPECT_THAT(seen, ElementsAre("a new", "b other"));
}

TEST_F(EtcdWatcherTest, change_is_read_again_after_a_break_in_the_middle) {
  begin(10, pair("a", 7));
  watcher.stop();
  begin(20, pair("a", 12));
  EXPECT_THAT(next("/v3/kv/range").body, HasSubstr(coded(keys.key("a"))));
  watcher.stop();
  begin(20, pair("a", 12));
  gateway.reply(next("/v3/kv/range"), pairs(20, pair("a", 12, "new")));
  ASSERT_TRUE(soon([&] { return !seen.empty(); }));
  EXPECT_THAT(seen, ElementsAre("a new"));
}

// As one does that has lost its disk: the first metadata has the first revision again.
TEST_F(EtcdWatcherTest, change_is_heard_of_an_etcd_that_has_forgotten_all_and_counts_anew) {
  begin(3, cat(pair("a", 2, {}, 11), ",", pair("b", 3, {}, 12)));
  watcher.stop();
  const Request stream = begin(3, cat(pair("a", 2, {}, 21), ",", pair("b", 3, {}, 12)));
  gateway.reply(next("/v3/kv/range"), pairs(3, pair("a", 2, "new", 21)));
  ASSERT_TRUE(soon([&] { return !seen.empty(); }));
  say(stream, pair("c", 4, "last"));
  ASSERT_TRUE(soon([&] { return seen.back() == "c last"; }));
  EXPECT_THAT(seen, ElementsAre("a new", "c last"));
}

TEST_F(EtcdWatcherTest, value_that_is_read_late_is_not_reported_after_a_newer_one) {
  begin(10, cat(pair("a", 7), ",", pair("b", 8)));
  watcher.stop();
  const Request stream = begin(20, cat(pair("a", 12), ",", pair("b", 13)));
  const Request reading = next("/v3/kv/range");
  say(stream, pair("a", 21, "newest"));
  ASSERT_TRUE(soon([&] { return !seen.empty(); }));
  gateway.reply(reading, pairs(20, pair("a", 12, "new")));
  gateway.reply(next("/v3/kv/range"), pairs(22, pair("b", 22, "other")));
  ASSERT_TRUE(soon([&] { return seen.back() == "b other"; }));
  say(stream, pair("b", 22, "other"));
  say(stream, pair("c", 23, "last"));
  ASSERT_TRUE(soon([&] { return seen.back() == "c last"; }));
  EXPECT_THAT(seen, ElementsAre("a newest", "b other", "c last"));
}

// A process that may write to an etcd may make any number of keys there, also while it is watched.
TEST_F(EtcdWatcherTest, keys_are_bounded_in_the_listing_and_in_the_stream) {
  const std::string two = cat(pair("a", 7), ",", pair("b", 8));
  const Request stream = begin(10, two);
  say(stream, pair("c", 11, "third"));
  ASSERT_TRUE(soon([&] { return !seen.empty(); }));
  EXPECT_TRUE(watcher.is_streaming());
  say(stream, pair("d", 12, "fourth"));
  ASSERT_TRUE(soon([&] { return watcher.is_off(); }));
  EXPECT_EQ(failed.code(), Code::out_of_range) << failed.to_string();
  failed = {};
  watcher.start();
  gateway.reply(next("/v3/kv/range"), pairs(12, cat(two, ",", pair("c", 11), ",", pair("d", 12))));
  ASSERT_TRUE(soon([&] { return watcher.is_off(); }));
  EXPECT_THAT(failed.to_string(), HasSubstr("more than 3 metadata under /t/"));
}

}  // namespace
}  // namespace towpath::rendezvous::etcd
