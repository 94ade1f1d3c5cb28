// What every Rendezvous does, run over each of them; then what each adds.
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/rendezvous/fetch_until.h>
#include <towpath/rendezvous/file_rendezvous.h>
#include <towpath/rendezvous/in_process.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/rendezvous/test_sockets.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::rendezvous {
namespace {

using run::Deadline;
using run::eventually;

// Makes rendezvous that see each other.
using Maker = std::function<std::unique_ptr<Rendezvous>(const Clock&)>;
struct Kind {
  std::string name;
  std::function<Maker()> make;
};
// Else the suite's list of tests shows the bytes of pointers, which no two runs share.
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

Maker in_process() {
  auto directory = std::make_shared<Directory>();
  return [directory](const Clock&) { return InProcess::open(directory).value(); };
}
Maker over_sockets() {
  return [](const Clock& clock) {
    return PeerRendezvous::open({.scope = test_scope()}, clock).value();
  };
}
Maker in_a_directory() {
  const auto directory =
      std::make_shared<const sys::TemporaryDirectory>(sys::TemporaryDirectory::create().value());
  return [directory](const Clock& clock) {
    return FileRendezvous::open({.directory = directory->path()}, clock).value();
  };
}

class RendezvousTest : public testing::TestWithParam<Kind> {
 protected:
  Result<Bytes> ask(const MetadataName& name) {
    std::optional<Result<Bytes>> answer;
    (void)there->fetch(name, Deadline::never(), [&](Result<Bytes> metadata) { answer = metadata; });
    EXPECT_FALSE(answer.has_value()) << "never from where it was asked";
    EXPECT_TRUE(eventually([&] {
      here->progress();
      there->progress();
      return answer.has_value();
    }));
    return answer ? *answer : error(Code::internal, "no answer");
  }

  sys::SystemClock clock;
  Maker make = GetParam().make();
  std::unique_ptr<Rendezvous> here = make(clock);
  std::unique_ptr<Rendezvous> there = make(clock);
};

TEST_P(RendezvousTest, metadata_is_found_until_it_is_withdrawn) {
  EXPECT_EQ(ask("a").code(), Code::not_found);
  ASSERT_TRUE(here->publish("a", as_bytes("one")).ok());
  EXPECT_EQ(ask("a").value(), to_bytes("one"));
  ASSERT_TRUE(here->publish("a", as_bytes("two")).ok());
  EXPECT_EQ(ask("a").value(), to_bytes("two"));
  EXPECT_EQ(ask("b").code(), Code::not_found);
  ASSERT_TRUE(here->withdraw("a").ok());
  EXPECT_EQ(ask("a").code(), Code::not_found);
  EXPECT_EQ(here->withdraw("a").code(), Code::not_found);
}

TEST_P(RendezvousTest, metadata_goes_with_the_one_who_published_it) {
  ASSERT_TRUE(here->publish("a", as_bytes("one")).ok());
  EXPECT_EQ(there->withdraw("a").code(), Code::not_found) << "it is not theirs";
  here = make(clock);
  EXPECT_EQ(ask("a").code(), Code::not_found);
}

TEST_P(RendezvousTest, names_and_metadata_may_hold_any_bytes) {
  const std::string longest(kMaxAgentName, '\xfe');
  const std::string odd("\0/..%\n", 6);
  ASSERT_TRUE(here->publish(longest, as_bytes(odd)).ok());
  ASSERT_TRUE(here->publish(odd, {}).ok());
  EXPECT_EQ(ask(longest).value(), to_bytes(odd));
  EXPECT_EQ(ask(odd).value(), Bytes());
}

TEST_P(RendezvousTest, parts_of_a_metadata_stand_under_labels_and_go_with_it) {
  ASSERT_TRUE(here->publish("a", as_bytes("full")).ok());
  ASSERT_TRUE(here->publish({"a", "one"}, as_bytes("part one")).ok());
  ASSERT_TRUE(here->publish({"a", "two"}, as_bytes("part two")).ok());
  EXPECT_EQ(ask({"a", "one"}).value(), to_bytes("part one"));
  EXPECT_EQ(ask({"a", "two"}).value(), to_bytes("part two"));
  EXPECT_EQ(ask({"a", "three"}).code(), Code::not_found);
  ASSERT_TRUE(here->withdraw({"a", "one"}).ok());
  EXPECT_EQ(ask({"a", "one"}).code(), Code::not_found);
  EXPECT_EQ(ask("a").value(), to_bytes("full"));
  ASSERT_TRUE(here->withdraw("a").ok());
  EXPECT_EQ(ask({"a", "two"}).code(), Code::not_found);
}

TEST_P(RendezvousTest, wrong_calls_are_reported_at_once) {
  const auto ignore = [](Result<Bytes>) {};
  EXPECT_EQ(here->publish("", {}).code(), Code::invalid_argument);
  EXPECT_EQ(here->publish(std::string(kMaxAgentName + 1, 'x'), {}).code(), Code::invalid_argument);
  EXPECT_EQ(here->publish({"a", std::string(257, 'x')}, {}).code(), Code::invalid_argument);
  EXPECT_EQ(here->publish("a", Bytes(kMaxMetadataBytes + 1)).code(), Code::out_of_range);
  EXPECT_EQ(here->fetch("", Deadline::never(), ignore).code(), Code::invalid_argument);
}

TEST_P(RendezvousTest, cancelled_fetch_is_not_answered) {
  bool answered = false;
  const auto id = here->fetch("a", Deadline::never(), [&](Result<Bytes>) { answered = true; });
  here->cancel(*id);
  EXPECT_EQ(ask("a").code(), Code::not_found);
  here->progress();
  EXPECT_FALSE(answered);
}

TEST_P(RendezvousTest, wait_fd_wakes_for_an_answer) {
  ASSERT_TRUE(here->publish("a", as_bytes("one")).ok());
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(there->wait_fd(), 0).ok());
  ASSERT_TRUE(poller.add(here->wait_fd(), 0).ok());
  bool answered = false;
  (void)there->fetch("a", Deadline::never(), [&](Result<Bytes>) { answered = true; });
  while (!answered) {
    (void)poller.wait(Duration::max());  // the test's watchdog ends this if nothing wakes it
    here->progress();
    there->progress();
  }
}

TEST_P(RendezvousTest, fetch_until_waits_for_one_who_comes_later) {
  auto late = run::Worker::start("late", [&](const run::StopToken& stop) {
                EXPECT_TRUE(here->publish("late", as_bytes("card")).ok());
                auto poller = run::Poller::open().value();
                (void)poller.add(here->wait_fd(), 0);
                (void)poller.add(stop.fd(), 1);
                while (!stop.stop_requested()) {
                  (void)poller.wait(Duration::max());
                  here->progress();
                }
              }).value();
  const auto metadata =
      fetch_until(*there, "late", Deadline::after(clock, std::chrono::seconds(30)), clock);
  EXPECT_EQ(metadata.value(), to_bytes("card"));
}

TEST_P(RendezvousTest, fetch_until_ends_at_its_deadline_with_the_last_reason) {
  EXPECT_TRUE(run::with_timeout(
      [&](Duration timeout) {
        const auto deadline = Deadline::after(clock, timeout);
        const auto metadata = fetch_until(*there, "nobody", deadline, clock);
        EXPECT_EQ(metadata.code(), Code::timed_out);
        EXPECT_TRUE(deadline.expired(clock));
        EXPECT_EQ(fetch_until(*there, "", deadline, clock).code(), Code::invalid_argument);
        const Status why = metadata.status().cause();
        return why.code() == Code::not_found && metadata.status().hint() == why.hint();
      },
      std::chrono::milliseconds(15)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RendezvousTest,
                         testing::Values(Kind{"in_process", in_process},
                                         Kind{"over_sockets", over_sockets},
                                         Kind{"in_a_directory", in_a_directory}),
                         [](const auto& kind) { return kind.param.name; });

using Seen = std::vector<std::pair<std::string, std::string>>;
ChangeSeen note_in(Seen& seen) {
  return [&seen](const Change& change) {
    seen.emplace_back(change.name.agent, change.metadata ? as_text(*change.metadata) : "withdrawn");
  };
}

TEST(InProcessTest, watcher_hears_of_others_but_not_of_itself) {
  auto directory = std::make_shared<Directory>();
  auto here = InProcess::open(directory).value();
  auto there = InProcess::open(directory).value();
  Seen seen;
  there->watch(note_in(seen));
  ASSERT_TRUE(there->publish("own", as_bytes("x")).ok());
  ASSERT_TRUE(here->publish("a", as_bytes("one")).ok());
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(there->progress(), 1U);
  EXPECT_EQ(seen, (Seen{{"a", "one"}}));
  ASSERT_TRUE(here->publish("a", as_bytes("two")).ok());
  ASSERT_TRUE(here->publish("a", as_bytes("three")).ok());
  EXPECT_EQ(there->progress(), 1U) << "only the last state of a name is reported";
  here.reset();
  there->progress();
  EXPECT_EQ(seen, (Seen{{"a", "one"}, {"a", "three"}, {"a", "withdrawn"}}));
  there->watch(nullptr);
  EXPECT_EQ(there->progress(), 0U);
}

TEST(InProcessTest, watcher_that_replaces_another_hears_what_comes_after_it) {
  auto directory = std::make_shared<Directory>();
  auto here = InProcess::open(directory).value();
  auto there = InProcess::open(directory).value();
  Seen before, seen;
  there->watch(note_in(before));
  ASSERT_TRUE(here->publish("a", as_bytes("1")).ok());
  there->watch(note_in(seen));
  ASSERT_TRUE(here->publish("b", as_bytes("2")).ok());
  there->progress();
  EXPECT_EQ(seen, (Seen{{"b", "2"}}));
}

TEST(InProcessTest, part_that_was_withdrawn_with_all_is_not_seen_after_it) {
  auto directory = std::make_shared<Directory>();
  auto here = InProcess::open(directory).value();
  auto there = InProcess::open(directory).value();
  Seen seen;
  there->watch(note_in(seen));
  ASSERT_TRUE(here->publish("a", as_bytes("full")).ok());
  ASSERT_TRUE(here->publish({"a", "part"}, as_bytes("part")).ok());
  ASSERT_TRUE(here->withdraw("a").ok());
  there->progress();
  EXPECT_EQ(seen, (Seen{{"a", "withdrawn"}, {"a", "withdrawn"}}));
}

TEST(InProcessTest, agents_on_many_threads_find_each_other) {
  auto directory = std::make_shared<Directory>();
  const sys::SystemClock clock;
  constexpr int kAgents = 4;
  // Nobody ends, and takes its metadata along, before all have found all.
  std::latch all_found(kAgents);
  std::vector<run::Worker> agents;
  for (int me = 0; me < kAgents; ++me)
    agents.push_back(run::Worker::start("agent", [&, me](const run::StopToken&) {
                       auto mine = InProcess::open(directory).value();
                       mine->watch([](const Change&) {});
                       EXPECT_TRUE(mine->publish(cat(me), as_bytes(cat("metadata ", me))).ok());
                       for (int other = 0; other < kAgents; ++other) {
                         const auto deadline = Deadline::after(clock, std::chrono::seconds(30));
                         const auto metadata = fetch_until(*mine, cat(other), deadline, clock);
                         EXPECT_TRUE(metadata.ok() &&
                                     *metadata == to_bytes(cat("metadata ", other)));
                       }
                       all_found.arrive_and_wait();
                     }).value());
}

TEST(PeerRendezvousTest, what_is_pushed_is_seen_by_the_watcher) {
  const sys::SystemClock clock;
  auto here = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  auto there = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  Seen seen;
  std::vector<Code> answers;
  ASSERT_TRUE(there->publish("there", as_bytes("t")).ok());
  const auto push = [&](const Change& change) {
    answers.clear();
    (void)here->push("there", change, Deadline::never(),
                     [&](Status status) { answers.push_back(status.code()); });
    EXPECT_TRUE(eventually([&] {
      here->progress();
      there->progress();
      return !answers.empty();
    }));
    return answers.empty() ? Code::internal : answers[0];
  };
  EXPECT_EQ(push({"here", to_bytes("h")}), Code::unsupported) << "nobody watches";
  there->watch(note_in(seen));
  EXPECT_EQ(push({"here", to_bytes("h")}), Code::ok);
  EXPECT_EQ(push({"here", std::nullopt}), Code::ok);
  EXPECT_EQ(seen, (Seen{{"here", "h"}, {"here", "withdrawn"}}));
}

TEST(PeerRendezvousTest, name_of_the_scope_can_be_taken_once) {
  const sys::SystemClock clock;
  auto here = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  auto there = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  ASSERT_TRUE(here->publish("a", as_bytes("h")).ok());
  EXPECT_EQ(there->publish("a", as_bytes("t")).code(), Code::already_exists);
  ASSERT_TRUE(here->withdraw("a").ok());
  EXPECT_TRUE(there->publish("a", as_bytes("t")).ok());
}

TEST(PeerRendezvousTest, watcher_may_withdraw_the_name_it_is_called_for) {
  const sys::SystemClock clock;
  auto here = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  auto there = PeerRendezvous::open({.scope = test_scope()}, clock).value();
  ASSERT_TRUE(there->publish("there", {}).ok());
  there->watch([&](const Change&) { EXPECT_TRUE(there->withdraw("there").ok()); });
  bool answered = false;
  (void)here->push("there", {"x", std::nullopt}, Deadline::never(),
                   [&](const Status&) { answered = true; });
  EXPECT_TRUE(eventually([&] {
    here->progress();
    there->progress();
    return answered;
  }));
  EXPECT_EQ(there->withdraw("there").code(), Code::not_found);
}

TEST(PeerRendezvousTest, agents_that_share_no_scope_meet_at_their_doors) {
  const sys::SystemClock clock;
  const auto tls = provider_of(test_tls("a secret of both"));
  const net::Address any = net::TcpAddress{"127.0.0.1", 0};
  auto here =
      PeerRendezvous::open({.scope = cat("h", getpid()), .door = any, .tls = tls}, clock).value();
  auto there =
      PeerRendezvous::open({.scope = cat("t", getpid()), .door = any, .tls = tls}, clock).value();
  Seen seen;
  there->watch(note_in(seen));
  ASSERT_TRUE(there->publish("there", as_bytes("t")).ok());
  std::vector<Code> codes;
  const auto wait = [&] {
    const std::size_t before = codes.size();
    EXPECT_TRUE(eventually([&] {
      here->progress();
      there->progress();
      return codes.size() > before;
    }));
  };
  const net::Address door = there->door().value();
  (void)here->fetch_from(door, "there", Deadline::never(), [&](const Result<Bytes>& metadata) {
    codes.push_back(metadata.code());
    EXPECT_EQ(metadata.ok() ? *metadata : Bytes(), to_bytes("t"));
  });
  wait();
  const auto note = [&](const Status& status) { codes.push_back(status.code()); };
  (void)here->send_to(door, {"here", to_bytes("h")}, Deadline::never(), note);
  wait();
  (void)here->send_to(door, {"here", std::nullopt}, Deadline::never(), note);
  wait();
  EXPECT_EQ(codes, (std::vector<Code>{Code::ok, Code::ok, Code::ok}));
  EXPECT_EQ(seen, (Seen{{"here", "h"}, {"here", "withdrawn"}}));
}

TEST(PeerRendezvousTest, scope_that_is_too_long_is_refused) {
  const sys::SystemClock clock;
  EXPECT_EQ(PeerRendezvous::open({.scope = std::string(65, 's')}, clock).code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::rendezvous
