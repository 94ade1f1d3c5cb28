// BackendInstance alone, under an owner that records its calls.
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/backend_instance.h>
#include <towpath/agent/testing/scripted_backend.h>

namespace towpath::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kRepeatAfter = std::chrono::milliseconds(20);

struct Owner final : InstanceOwner {
  bool deliver(const AgentIdentity&, ConstByteSpan message) override {
    if (std::exchange(has_no_memory, false)) throw std::bad_alloc();
    delivered.emplace_back(as_text(message));
    return true;
  }
  void note_ended() override {}
  void note_deadline(Instant at) override { deadlines.push_back(at); }
  void defer_notification(std::size_t, DeferredNotification) override {}
  void note_trial(const TransferCore&) override {
    ++trials;
    if (std::exchange(has_no_memory, false)) throw std::bad_alloc();
  }

  std::vector<Instant> deadlines;
  std::vector<std::string> delivered;
  int trials = 0;
  bool has_no_memory = false;  ///< for the next one
};

struct LossyInstance {
  LossyInstance() {
    script.can.notifications = backend::Notifications::lossy;
    instance.backend = std::make_unique<ScriptedBackend>(script, instance);
  }
  PeerPtr meet(const std::string& name) {
    auto peer = std::make_shared<Peer>();
    peer->identity = {name, 1};
    run::MutexLock lock(instance.mutex);
    instance.open_path(peer, Bytes(1));
    return peer;
  }
  void say(const PeerPtr& peer) {
    run::MutexLock lock(instance.mutex);
    EXPECT_TRUE(instance.enqueue(*peer, as_bytes("word")).ok());
    instance.settle();
  }
  void hear(const PeerPtr& peer, const Envelope& envelope) {
    run::MutexLock lock(instance.mutex);
    EXPECT_TRUE(instance.on_notification(peer->identity, encode(envelope)));
    instance.settle();
  }
  void progress() {
    run::MutexLock lock(instance.mutex);
    instance.progress();
  }
  std::vector<Instant> renewed() {
    owner.deadlines.clear();
    run::MutexLock lock(instance.mutex);
    instance.renew_deadline();
    return owner.deadlines;
  }

  ManualClock clock;
  Owner owner;
  Script script;
  BackendInstance instance{"scripted", 0, owner, clock, {}, kRepeatAfter};
};

TEST(BackendInstanceTest, reports_again_when_a_repetition_is_due_until_it_is_acknowledged) {
  LossyInstance s;
  const PeerPtr early = s.meet("early");
  const PeerPtr late = s.meet("late");
  s.say(early);
  const Instant first = s.clock.now() + kRepeatAfter;
  EXPECT_THAT(s.owner.deadlines, testing::Contains(first));
  EXPECT_THAT(s.renewed(), ElementsAre(first)) << "the timer may have fired for something else";
  s.clock.advance(kRepeatAfter / 2);
  s.say(late);
  EXPECT_THAT(s.renewed(), ElementsAre(first)) << "the earlier of the two";
  s.hear(early, {Envelope::Kind::acknowledgement, 1, 1, {}});
  EXPECT_THAT(s.renewed(), ElementsAre(s.clock.now() + kRepeatAfter));
  s.hear(late, {Envelope::Kind::acknowledgement, 2, 1, {}});
  EXPECT_THAT(s.renewed(), IsEmpty());
  EXPECT_EQ(s.script.notified.size(), 2U);
}

TEST(BackendInstanceTest, repeats_what_is_not_acknowledged_in_time) {
  LossyInstance s;
  const PeerPtr peer = s.meet("peer");
  s.say(peer);
  s.progress();
  EXPECT_EQ(s.script.notified.size(), 1U);
  s.clock.advance(kRepeatAfter);
  s.progress();
  ASSERT_EQ(s.script.notified.size(), 2U);
  EXPECT_EQ(s.script.notified[0], s.script.notified[1]);
}

TEST(BackendInstanceTest, acknowledges_each_message_also_one_that_was_seen_before) {
  LossyInstance s;
  const PeerPtr peer = s.meet("peer");
  for (int copy = 0; copy < 2; ++copy) {
    s.hear(peer, {Envelope::Kind::message, 7, 1, as_bytes("word")});
    ASSERT_EQ(s.script.notified.size(), static_cast<std::size_t>(copy + 1));
    const auto answer = decode_envelope(s.script.notified.back());
    EXPECT_EQ(answer->kind, Envelope::Kind::acknowledgement);
    EXPECT_EQ(answer->stream, 7U);
    EXPECT_EQ(answer->number, 1U);
  }
  EXPECT_THAT(s.owner.delivered, ElementsAre("word"));
}

// A backend may tell what it received from inside any call.
TEST(BackendInstanceTest, hears_a_message_while_it_acknowledges_another) {
  LossyInstance s;
  const PeerPtr one = s.meet("one");
  const PeerPtr other = s.meet("other");
  bool advertised = false;
  s.script.on_notify = [&](ScriptedConnection& connection, ConstByteSpan) -> Status {
    if (std::exchange(advertised, true)) return {};
    for (std::uint64_t i = 1; i <= 100; ++i) {
      connection.events.on_notification(
          other->identity, encode({Envelope::Kind::message, 1, i, as_bytes("from inside")}));
    }
    return {};
  };
  s.hear(one, {Envelope::Kind::message, 1, 1, as_bytes("word")});
  s.progress();
  EXPECT_EQ(s.owner.delivered.size(), 101U);
  const auto last = decode_envelope(s.script.notified.back());
  EXPECT_EQ(last->number, 100U) << "the other is acknowledged too";
}

TEST(BackendInstanceTest, without_memory_what_is_to_be_sent_waits) {
  LossyInstance s;
  const std::vector<PeerPtr> peers = {s.meet("a"), s.meet("b"), s.meet("c")};
  s.script.on_notify = [](auto&, auto) { return error(Code::exhausted, "full"); };
  for (const PeerPtr& peer : peers) s.say(peer);
  for (std::size_t throwing = 0; throwing < peers.size(); ++throwing) {
    s.script.on_notify = [&](const ScriptedConnection& connection, ConstByteSpan) -> Status {
      if (connection.peer == peers[throwing]->identity) throw std::bad_alloc();
      return error(Code::exhausted, "full");
    };
    EXPECT_THROW(s.progress(), std::bad_alloc);
  }
  s.script.on_notify = nullptr;
  s.progress();
  EXPECT_EQ(s.script.notified.size(), 3U);
  s.progress();
  EXPECT_EQ(s.script.notified.size(), 3U) << "each went once";
}

// What a receiver has heard of a number, it does not hear again.
TEST(BackendInstanceTest, what_a_backend_took_before_it_failed_keeps_its_number) {
  for (const bool throws : {false, true}) {
    LossyInstance s;
    s.script.can.notifications = backend::Notifications::reliable;
    const PeerPtr peer = s.meet("peer");
    bool has_failed = false;
    s.script.on_notify = [&](auto&, ConstByteSpan message) -> Status {
      if (std::exchange(has_failed, true)) return {};
      s.script.notified.emplace_back(message.begin(), message.end());
      if (throws) throw std::bad_alloc();
      return error(Code::exhausted, "its doorbell");
    };
    s.say(peer);
    s.say(peer);
    std::vector<std::uint64_t> numbers;
    for (const Bytes& message : s.script.notified)
      numbers.push_back(decode_envelope(message)->number);
    EXPECT_THAT(numbers, ElementsAre(1U, 1U, 2U)) << throws;
  }
}

TEST(BackendInstanceTest, without_memory_what_was_deferred_waits) {
  LossyInstance s;
  const PeerPtr peer = s.meet("peer");
  const auto defer = [&](const char* word) {
    const ConstByteSpan bytes = as_bytes(std::string_view(word));
    run::MutexLock lock(s.instance.mutex);
    EXPECT_TRUE(s.instance.reserve(*peer, bytes.size()).ok());
    s.instance.defer({peer, bytes.size(), Bytes(bytes.begin(), bytes.end())});
  };
  defer("one");
  defer("two");
  s.script.on_notify = [](auto&, auto) -> Status { throw std::bad_alloc(); };
  EXPECT_THROW(s.progress(), std::bad_alloc);
  s.script.on_notify = nullptr;
  s.progress();
  EXPECT_EQ(s.script.notified.size(), 2U);
}

// The backend offers it again, and that a last piece was there before is forgotten.
TEST(BackendInstanceTest, without_memory_what_came_is_not_taken) {
  LossyInstance s;
  const PeerPtr peer = s.meet("peer");
  s.hear(peer, {Envelope::Kind::piece, 1, 1, as_bytes("a long ")});
  const Bytes last = encode({Envelope::Kind::message, 1, 2, as_bytes("word")});
  run::MutexLock lock(s.instance.mutex);
  s.owner.deadlines.clear();
  s.owner.has_no_memory = true;
  EXPECT_FALSE(s.instance.on_notification(peer->identity, last));
  EXPECT_THAT(s.owner.deadlines, ElementsAre(s.clock.now())) << "nobody else says when";
  EXPECT_TRUE(s.instance.on_notification(peer->identity, last));
  EXPECT_TRUE(s.instance.on_notification(peer->identity, last)) << "a late copy";
  EXPECT_THAT(s.owner.delivered, ElementsAre("a long word"));
}

TEST(BackendInstanceTest, without_memory_to_note_a_trial_its_transfer_ends_all_the_same) {
  LossyInstance s;
  const auto side = std::make_shared<PreparedSide>();
  side->peer = s.meet("peer");
  const auto transfer = std::make_shared<TransferCore>();
  transfer->instance = &s.instance;
  transfer->remote = side;
  transfer->operation = s.instance.backend->make_operation();
  transfer->operation->owner = transfer.get();
  transfer->deadline = Instant::never();
  transfer->is_trial = true;
  s.owner.has_no_memory = true;
  run::MutexLock lock(s.instance.mutex);
  EXPECT_NO_THROW(s.instance.post(*transfer));
  EXPECT_EQ(s.owner.trials, 1);
  EXPECT_EQ(transfer->state.load(), TransferState::ended);
  EXPECT_EQ(transfer->outcome.load(), Outcome::done);
  EXPECT_FALSE(transfer->is_active());
}

TEST(BackendInstanceTest, forgets_the_numbers_of_a_peer_with_the_peer_only) {
  LossyInstance s;
  PeerPtr peer = s.meet("peer");
  s.hear(peer, {Envelope::Kind::message, 1, 1, as_bytes("word")});
  for (std::uint64_t i = 0; i < kMaxUnauthenticated + 10; ++i) {
    auto unauthenticated = std::make_shared<Peer>();
    unauthenticated->identity = {"unauthenticated connection", i + 1};
    s.hear(unauthenticated, {Envelope::Kind::message, 1, 1, as_bytes("hello")});
  }
  EXPECT_EQ(s.owner.delivered.size(), kMaxUnauthenticated + 11);
  s.hear(peer, {Envelope::Kind::message, 1, 1, as_bytes("word")});
  EXPECT_EQ(s.owner.delivered.size(), kMaxUnauthenticated + 11) << "a late copy";
}

}  // namespace
}  // namespace towpath::agent
