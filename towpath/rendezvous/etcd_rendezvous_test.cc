// Against a real etcd; each test starts its own and stops it.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/net/base64.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/test_etcd.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/testing/child.h>
#include <towpath/telemetry/log.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::chrono::seconds kShort(3);  // a lease whose end is waited for

class EtcdRendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!TestEtcd::is_installed())
      GTEST_SKIP() << TestEtcd::kBinary << " is missing: apt-get install etcd-server";
    etcd = std::make_unique<TestEtcd>();
    etcd->start();
  }
  EtcdOptions options() {
    EtcdOptions made;
    made.client.endpoints = {etcd->url()};
    made.client.call_timeout = std::chrono::seconds(20);  // a busy machine is no failure
    made.lease_ttl = lease;
    made.log = telemetry::Log(sink, clock, "etcd");
    return made;
  }
  std::unique_ptr<EtcdRendezvous> join() { return EtcdRendezvous::open(options(), clock).value(); }
  template <typename Condition>
  bool soon(Condition condition) {
    return eventually([&] {
      for (EtcdRendezvous* each : {here.get(), there.get()})
        if (each != nullptr) each->progress();
      return condition();
    });
  }
  void publish(const MetadataName& name, std::string_view metadata) {
    ASSERT_TRUE(here->publish(name, as_bytes(metadata)).ok());
    ASSERT_TRUE(soon([&] { return here->standing().pending == 0; }))
        << here->standing().trouble.to_string();
  }
  Result<Bytes> ask(const MetadataName& name) {
    std::optional<Result<Bytes>> answer;
    (void)there->fetch(name, Deadline::never(), [&](Result<Bytes> metadata) { answer = metadata; });
    EXPECT_FALSE(answer.has_value()) << "never from where it was asked";
    EXPECT_TRUE(soon([&] { return answer.has_value(); }));
    return answer ? *answer : error(Code::internal, "no answer");
  }
  std::string key(const MetadataName& name) {
    return etcd::Keys::in(options().name_space).value().key(name);
  }
  /// From now on etcd asks who comes: root, with the password "secret".
  void lock_the_door() {
    etcd->call("/v3/auth/user/add", R"({"name":"root","password":"secret"})");
    etcd->call("/v3/auth/role/add", R"({"name":"root"})");
    etcd->call("/v3/auth/user/grant", R"({"user":"root","role":"root"})");
    etcd->call("/v3/auth/enable", "{}");
  }
  void watch() {
    there->watch([&](const Change& change) {
      seen.emplace_back(change.name.agent,
                        change.metadata ? as_text(*change.metadata) : "withdrawn");
    });
    ASSERT_TRUE(soon([&] { return there->is_watching(); }));
  }

  std::chrono::seconds lease = std::chrono::minutes(5);  // nor is a machine that stands still
  sys::SystemClock clock;
  telemetry::CollectingSink sink;
  std::unique_ptr<TestEtcd> etcd;
  std::unique_ptr<EtcdRendezvous> here, there;
  std::vector<std::pair<std::string, std::string>> seen;
};

TEST_F(EtcdRendezvousTest, metadata_is_found_until_it_is_withdrawn) {
  here = join();
  there = join();
  EXPECT_EQ(ask("a").code(), Code::not_found);
  const std::string odd("\0/..\xff\n", 6);
  publish("a", "one");
  publish({"a", odd}, "part");
  publish(odd, odd);
  EXPECT_EQ(ask("a").value(), to_bytes("one"));
  EXPECT_EQ(ask({"a", odd}).value(), to_bytes("part"));
  EXPECT_EQ(ask(odd).value(), to_bytes(odd));
  publish("a", "two");
  EXPECT_EQ(ask("a").value(), to_bytes("two"));
  EXPECT_EQ(there->withdraw("a").code(), Code::not_found) << "it is not theirs";
  ASSERT_TRUE(here->withdraw("a").ok());
  EXPECT_EQ(here->withdraw("a").code(), Code::not_found);
  ASSERT_TRUE(soon([&] { return here->standing().pending == 0; }));
  EXPECT_EQ(ask("a").code(), Code::not_found);
  EXPECT_EQ(ask({"a", odd}).code(), Code::not_found) << "its parts go with it";
  EXPECT_EQ(ask(odd).value(), to_bytes(odd));
  here.reset();
  EXPECT_EQ(ask(odd).code(), Code::not_found) << "a farewell takes all metadata along";
}

TEST_F(EtcdRendezvousTest, a_forked_child_that_drops_its_copy_takes_no_leave) {
  here = join();
  there = join();
  publish("a", "one");
  EXPECT_TRUE(sys::testing::passes_in_child([&] { here.reset(); }));
  EXPECT_EQ(ask("a").value(), to_bytes("one"));
}

TEST_F(EtcdRendezvousTest, fetch_in_flight_is_not_answered_by_the_farewell) {
  here = join();
  publish("a", "one");
  int answered = 0;
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(
        here->fetch("a", Deadline::never(), [&](const Result<Bytes>&) { ++answered; }).ok());
  here.reset();
  EXPECT_EQ(answered, 0);
}

TEST_F(EtcdRendezvousTest, lease_is_kept_for_as_long_as_progress_is_made) {
  lease = kShort;
  here = join();
  there = join();
  publish("a", "card");
  const Deadline more_than_a_lease = Deadline::after(clock, lease + std::chrono::seconds(1));
  ASSERT_TRUE(soon([&] { return more_than_a_lease.expired(clock); }));
  EXPECT_TRUE(ask("a").ok());
  EXPECT_EQ(sink.events().size(), 0U);
}

TEST_F(EtcdRendezvousTest, metadata_of_a_killed_process_goes_away_and_the_watcher_hears_of_it) {
  there = join();
  watch();
  lease = kShort;
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    auto doomed = join();
    (void)doomed->publish("doomed", as_bytes("card"));
    while (true) {
      doomed->progress();
      sched_yield();
    }
  }
  ChildProcess child(pid);
  ASSERT_TRUE(soon([&] { return seen.size() == 1; }));
  EXPECT_TRUE(ask("doomed").ok());
  child.end(SIGKILL);
  ASSERT_TRUE(soon([&] { return seen.size() == 2; }));
  EXPECT_THAT(seen, ElementsAre(Pair("doomed", "card"), Pair("doomed", "withdrawn")));
  EXPECT_EQ(ask("doomed").code(), Code::not_found);
}

TEST_F(EtcdRendezvousTest, watcher_hears_what_others_do_and_not_itself) {
  here = join();
  there = join();
  publish("before", "x");
  watch();
  ASSERT_TRUE(there->publish("own", as_bytes("o")).ok());
  publish("a", "one");
  publish("a", "two");
  ASSERT_TRUE(here->withdraw("a").ok());
  ASSERT_TRUE(there->withdraw("own").ok());
  here.reset();
  ASSERT_TRUE(soon([&] { return seen.size() == 4; }));
  EXPECT_THAT(seen, ElementsAre(Pair("a", "one"), Pair("a", "two"), Pair("a", "withdrawn"),
                                Pair("before", "withdrawn")));
}

TEST_F(EtcdRendezvousTest, restart_of_etcd_is_survived_by_metadata_and_watchers) {
  lease = kShort;
  here = join();
  there = join();
  publish("a", "one");
  publish("b", "two");
  watch();
  etcd->kill_it();
  EXPECT_EQ(ask("a").code(), Code::unavailable);
  ASSERT_TRUE(here->publish("a", as_bytes("newer")).ok()) << "accepted while it is away";
  ASSERT_TRUE(here->withdraw("b").ok());
  ASSERT_TRUE(soon([&] { return here->standing().trouble.code() == Code::unavailable; }));
  EXPECT_EQ(here->standing().pending, 2U);
  etcd->start();
  ASSERT_TRUE(soon([&] { return here->standing().pending == 0 && seen.size() == 2; }));
  EXPECT_TRUE(here->standing().trouble.ok());
  EXPECT_THAT(seen, testing::UnorderedElementsAre(Pair("a", "newer"), Pair("b", "withdrawn")));
  EXPECT_EQ(ask("a").value(), to_bytes("newer"));
  ASSERT_TRUE(soon([&] { return there->is_watching(); }));
  publish("c", "after");
  EXPECT_TRUE(soon([&] { return seen.size() == 3; }));
  EXPECT_TRUE(there->standing().trouble.ok()) << "of one that publishes nothing too";
}

TEST_F(EtcdRendezvousTest, etcd_that_forgot_all_is_reported_again) {
  lease = kShort;
  here = join();
  there = join();
  publish("a", "card");
  watch();
  etcd->stop();
  etcd->lose_data();
  etcd->start();
  std::optional<Bytes> found;
  EXPECT_TRUE(soon([&] {
    const auto metadata = ask("a");
    if (metadata.ok()) found = *metadata;
    return found.has_value();
  }));
  EXPECT_EQ(found, to_bytes("card"));
  ASSERT_TRUE(soon([&] { return there->is_watching(); }));
  publish("b", "after");
  EXPECT_TRUE(soon([&] { return !seen.empty() && seen.back().first == "b"; }));
  for (const auto& [name, what] : seen) EXPECT_NE(what, "withdrawn") << name << " never was";
}

TEST_F(EtcdRendezvousTest, out_of_reach_is_said_clearly_and_once) {
  etcd->stop();
  here = join();
  there = join();
  const Status refused = ask("a").status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_THAT(refused.to_string(), HasSubstr(cat("the etcd at ", etcd->url())));
  ASSERT_TRUE(here->publish("a", as_bytes("card")).ok());
  here->watch([](const Change&) {});
  ASSERT_TRUE(soon([&] { return !here->standing().trouble.ok(); }));
  const Deadline a_while = Deadline::after(clock, std::chrono::milliseconds(300));
  ASSERT_TRUE(soon([&] { return a_while.expired(clock); }));
  EXPECT_EQ(sink.count_of("etcd is of no help now"), 2U) << "once for each";
}

TEST_F(EtcdRendezvousTest, metadata_that_somebody_removed_are_brought_again) {
  lease = kShort;
  here = join();
  there = join();
  publish("a", "one");
  const std::string gone = etcd->call(
      "/v3/kv/deleterange", cat(R"({"key":")", net::to_base64(as_bytes(key("a"))), R"("})"));
  EXPECT_THAT(gone, HasSubstr(R"("deleted":"1")"));
  EXPECT_TRUE(soon([&] { return ask("a").ok(); }));
}

TEST_F(EtcdRendezvousTest, of_two_with_one_name_the_later_has_it_and_the_first_is_reported) {
  lease = kShort;
  here = join();
  there = join();
  publish("a", "first");
  ASSERT_TRUE(there->publish("a", as_bytes("later")).ok());
  ASSERT_TRUE(soon([&] { return here->standing().trouble.code() == Code::already_exists; }));
  EXPECT_EQ(ask("a").value(), to_bytes("later"));
  EXPECT_TRUE(there->standing().trouble.ok());
  ASSERT_TRUE(there->withdraw("a").ok());
  EXPECT_TRUE(soon([&] {
    const auto found = ask("a");
    return found.ok() && *found == to_bytes("first");
  })) << "the name is free again";
  EXPECT_TRUE(here->standing().trouble.ok());
}

TEST_F(EtcdRendezvousTest, withdrawal_leaves_what_another_has_published_since) {
  here = join();
  there = join();
  publish("a", "first");
  ASSERT_TRUE(there->publish("a", as_bytes("later")).ok());
  ASSERT_TRUE(soon([&] { return there->standing().pending == 0; }));
  ASSERT_TRUE(here->withdraw("a").ok());
  ASSERT_TRUE(soon([&] { return here->standing().pending == 0; }));
  EXPECT_EQ(ask("a").value(), to_bytes("later"));
}

TEST_F(EtcdRendezvousTest, next_endpoint_is_asked_when_one_is_away) {
  auto both = options();
  both.client.endpoints = {"http://127.0.0.1:1", etcd->url() + "/"};
  here = EtcdRendezvous::open(both, clock).value();
  there = EtcdRendezvous::open(both, clock).value();
  publish("a", "card");
  EXPECT_TRUE(ask("a").ok());
}

TEST_F(EtcdRendezvousTest, user_and_password_open_the_door) {
  lock_the_door();
  there = join();
  EXPECT_EQ(ask("a").code(), Code::denied) << "nobody in particular";
  auto known = options();
  known.client.login = {"root", "wrong"};
  there = EtcdRendezvous::open(known, clock).value();
  EXPECT_EQ(ask("a").code(), Code::denied);
  known.client.login = {"root", "secret"};
  here = EtcdRendezvous::open(known, clock).value();
  there = EtcdRendezvous::open(known, clock).value();
  watch();
  publish("a", "card");
  EXPECT_TRUE(ask("a").ok());
  EXPECT_TRUE(soon([&] { return seen.size() == 1; }));
}

// A restart proves nothing here: etcd replays its log again, and with it the tokens that it gave.
TEST_F(EtcdRendezvousTest, token_that_is_no_longer_good_is_renewed) {
  lock_the_door();
  auto known = options();
  known.client.login = {"root", "secret"};
  here = EtcdRendezvous::open(known, clock).value();
  there = EtcdRendezvous::open(known, clock).value();
  publish("a", "card");
  EXPECT_TRUE(ask("a").ok()) << "both are logged in";
  const std::string login = R"({"name":"root","password":"secret"})";
  const std::string token = etcd::parse_token(etcd->call("/v3/auth/authenticate", login)).value();
  etcd->call("/v3/auth/user/changepw", login, token);
  ASSERT_THAT(etcd->call("/v3/kv/range", R"({"key":"YQ=="})", token),
              HasSubstr("invalid auth token"))
      << "etcd forgets a user's tokens with a new password, which is the old one here";
  const Result<Bytes> found = ask("a");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(*found, to_bytes("card"));
  publish("a", "newer");
  EXPECT_EQ(ask("a").value(), to_bytes("newer"));
}

TEST_F(EtcdRendezvousTest, certificate_is_checked) {
  etcd = std::make_unique<TestEtcd>(true);
  etcd->start();
  there = join();
  EXPECT_EQ(ask("a").code(), Code::denied) << "an authority that nobody knows";
  auto trusting = options();
  trusting.client.tls.authority_file = etcd->authority_file();
  here = EtcdRendezvous::open(trusting, clock).value();
  there = EtcdRendezvous::open(trusting, clock).value();
  publish("a", "card");
  EXPECT_TRUE(ask("a").ok());
}

// ---- metadata with a token ----

class EncryptedMetadataTest : public EtcdRendezvousTest {
 protected:
  std::unique_ptr<EtcdRendezvous> join_with(std::string_view secret) {
    EtcdOptions made = options();
    made.token = net::Token::make(secret).value();
    return EtcdRendezvous::open(made, clock).value();
  }
  /// What lies in the etcd under `name`, for all that may read there.
  Bytes read_without_token(const MetadataName& name) {
    const Call call = etcd::range({.key = key(name)});
    auto reply = etcd::parse_range(etcd->call(call.path, call.body));
    return reply.value().pairs.at(0).value;
  }
  void write_without_token(const MetadataName& name, ConstByteSpan value) {
    const Call call = etcd::put({.key = key(name), .value = value});
    etcd->call(call.path, call.body);
  }

  using Call = etcd::Call;
  const std::string ours = "a secret that all agents share";
};

TEST_F(EncryptedMetadataTest, they_are_found_by_those_who_share_the_token) {
  here = join_with(ours);
  there = join_with(ours);
  watch();
  publish("a", "reach my memory");
  EXPECT_EQ(ask("a").value(), to_bytes("reach my memory"));
  ASSERT_TRUE(soon([&] { return !seen.empty(); }));
  EXPECT_THAT(seen, ElementsAre(Pair("a", "reach my memory")));
}

TEST_F(EncryptedMetadataTest, a_reader_of_the_etcd_learns_nothing) {
  here = join_with(ours);
  publish("a", "reach my memory");
  const Bytes value = read_without_token("a");
  EXPECT_EQ(as_text(value).find("memory"), std::string_view::npos) << as_text(value);
  there = join_with("another secret, of others");
  EXPECT_EQ(ask("a").code(), Code::denied);
  there = join();
  EXPECT_EQ(ask("a").code(), Code::denied);
}

TEST_F(EncryptedMetadataTest, what_others_leave_is_refused_and_not_reported) {
  here = join_with(ours);
  there = join_with(ours);
  watch();
  write_without_token("a", as_bytes("my own metadata"));
  const Status refused = ask("a").status();
  EXPECT_EQ(refused.code(), Code::denied);
  EXPECT_THAT(refused.to_string(), HasSubstr("the same token file"));
  publish("a", "one");
  write_without_token("b", read_without_token("a"));  // good metadata, under another name
  EXPECT_EQ(ask("b").code(), Code::denied);
  publish("c", "two");
  ASSERT_TRUE(soon([&] { return seen.size() >= 2; }));
  EXPECT_THAT(seen, ElementsAre(Pair("a", "one"), Pair("c", "two")));
  EXPECT_EQ(sink.count_of("metadata in etcd are not of ours, and are ignored"), 2U);
}

TEST_F(EtcdRendezvousTest, large_metadata_fit_up_to_a_bound) {
  here = join();
  there = join();
  const std::string metadata(1 << 20, 'x');
  EXPECT_EQ(here->publish("a", as_bytes(metadata + "x")).code(), Code::out_of_range);
  publish("a", metadata);
  EXPECT_EQ(ask("a")->size(), metadata.size());
}

TEST_F(EtcdRendezvousTest, fetch_ends_at_its_deadline_and_a_cancelled_one_never) {
  there = join();
  std::vector<Code> codes;
  const auto note = [&](const Result<Bytes>& metadata) { codes.push_back(metadata.code()); };
  const FetchId gone = there->fetch("a", Deadline::never(), note).value();
  there->cancel(gone);
  (void)there->fetch("a", Deadline::now(), note);
  ASSERT_TRUE(soon([&] { return !codes.empty(); }));
  EXPECT_THAT(codes, ElementsAre(Code::timed_out));
  EXPECT_EQ(there->fetch("", Deadline::never(), note).code(), Code::invalid_argument);
}

TEST_F(EtcdRendezvousTest, as_many_fetches_as_may_be_are_asked_beside_a_watch) {
  there = join();
  watch();
  const std::size_t most = options().max_fetches;
  std::vector<Code> answers;
  for (std::size_t i = 0; i < most; ++i)
    ASSERT_TRUE(there
                    ->fetch(cat("a", i), Deadline::never(),
                            [&](const Result<Bytes>& it) { answers.push_back(it.code()); })
                    .ok());
  ASSERT_TRUE(soon([&] { return answers.size() == most; }));
  EXPECT_THAT(answers, testing::Each(Code::not_found));
}

TEST_F(EtcdRendezvousTest, wait_fd_wakes_for_each_step) {
  there = join();
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(there->wait_fd(), 0).ok());
  ASSERT_TRUE(there->publish("a", as_bytes("card")).ok());
  while (there->standing().pending > 0) {
    (void)poller.wait(Duration::max());  // the test's watchdog ends this if nothing wakes it
    there->progress();
  }
  std::optional<Bytes> found;
  (void)there->fetch("a", Deadline::never(),
                     [&](const Result<Bytes>& metadata) { found = *metadata; });
  while (!found) {
    (void)poller.wait(Duration::max());
    there->progress();
  }
}

TEST(EtcdOptionsTest, what_cannot_work_is_refused) {
  const sys::SystemClock clock;
  EtcdOptions options;
  EXPECT_EQ(EtcdRendezvous::open(options, clock).code(), Code::invalid_argument);
  options.client.endpoints = {"http://127.0.0.1:1"};
  EXPECT_TRUE(EtcdRendezvous::open(options, clock).ok());
  options.lease_ttl = std::chrono::seconds(0);
  EXPECT_EQ(EtcdRendezvous::open(options, clock).code(), Code::invalid_argument);
  options.lease_ttl = std::chrono::seconds(1);
  options.name_space = "";
  EXPECT_EQ(EtcdRendezvous::open(options, clock).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::rendezvous
