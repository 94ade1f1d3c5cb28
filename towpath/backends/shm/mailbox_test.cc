#include <algorithm>
#include <csignal>
#include <random>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/mailbox.h>
#include <towpath/backends/shm/testing/raw_ring.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/random.h>

namespace towpath::backends::shm {
namespace {

using backend::testing::RecordingEvents;

class MailboxTest : public ::testing::Test {
 protected:
  Outbox::Options options(const char* name) {
    return {.name = name_, .expected = ::getpid(), .self = {name, 3}, .id = ++last_id_};
  }
  std::unique_ptr<Outbox> open(const char* name) {
    auto outbox = Outbox::open(options(name), sender_);
    EXPECT_TRUE(outbox.ok()) << outbox.status().to_string();
    return *std::move(outbox);
  }
  /// Receives until nothing is left to do; returns how many rounds it took.
  int receive() {
    for (int rounds = 0;; ++rounds) {
      std::size_t budget = kMessagesPerCall;
      mailbox_->offer_kept(budget);
      bool came = mailbox_->read_rings(budget);
      const auto ready = receiver_.wait(Duration(0));
      for (const run::PollEvent& event : ready) {
        if (event.tag == tag_of(Watch::listener, 0))
          mailbox_->accept_some();
        else
          mailbox_->note_ready(event.tag >> 2);
      }
      mailbox_->read_ready(budget);
      came |= mailbox_->read_rings(budget);
      if (ready.empty() && !came && mailbox_->announce_sleep()) return rounds;
    }
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> all;
    for (const auto& one : events_.notifications) all.push_back(one.message);
    return all;
  }

  /// The numbers below `sent`, some of which still wait in the outbox.
  void expect_all_in_order(Outbox& outbox, std::size_t sent) {
    for (std::size_t before = SIZE_MAX; before != events_.notifications.size();) {
      before = events_.notifications.size();
      receive();
      ASSERT_TRUE(outbox.flush().ok());
    }
    ASSERT_EQ(events_.notifications.size(), sent);
    for (std::size_t i = 0; i < sent; ++i) ASSERT_EQ(messages()[i], std::to_string(i));
  }

  static Bytes hello_with(const FileRef& ring) {
    Bytes hello(1, std::byte{'H'});
    const Bytes body = *encode_hello({.from = {"by hand", 3}, .ring = ring});
    hello.insert(hello.end(), body.begin(), body.end());
    return hello;
  }
  sys::LocalSocket unauthenticated() {
    return *sys::LocalSocket::connect({.name = name_, .abstract = true});
  }

  const std::string name_ = socket_name({sys::random_u64(), sys::random_u64()});
  run::Poller receiver_ = *run::Poller::open();
  run::Poller sender_ = *run::Poller::open();
  RecordingEvents events_;
  sys::SystemClock clock_;
  std::unique_ptr<Mailbox> mailbox_ = *Mailbox::open(name_, receiver_, events_, clock_);
  std::uint64_t last_id_ = 0;
};

TEST_F(MailboxTest, messages_arrive_whole_and_in_order) {
  const auto outbox = open("a");
  ASSERT_TRUE(outbox->send(as_bytes("1")).ok());
  ASSERT_TRUE(outbox->send({}).ok());
  const Bytes largest(kMaxNotificationBytes, std::byte{7});
  ASSERT_TRUE(outbox->send(largest).ok());
  receive();
  ASSERT_EQ(messages(), (std::vector<std::string>{"1", "", std::string(largest.size(), 7)}));
  EXPECT_EQ(events_.notifications[0].from, (AgentIdentity{"a", 3}));
}

TEST_F(MailboxTest, full_socket_queues_and_a_full_queue_refuses) {
  const auto outbox = open("a");
  std::size_t sent = 0;
  while (outbox->send(as_bytes(std::to_string(sent))).ok()) ++sent;
  EXPECT_GT(sent, kMaxQueuedMessages);
  EXPECT_EQ(outbox->send(as_bytes("x")).code(), Code::exhausted);
  expect_all_in_order(*outbox, sent);
  EXPECT_TRUE(sender_.wait(Duration(0)).empty());  // nothing left to flush: no more room is asked
}

TEST_F(MailboxTest, who_sends_much_silences_nobody) {
  const auto first = open("a");
  const auto second = open("b");
  const auto third = open("c");
  receive();
  for (const auto& talkative : {first.get(), third.get()})
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(talkative->send(as_bytes("much")).ok());
  ASSERT_TRUE(second->send(as_bytes("b1")).ok());
  ASSERT_TRUE(second->send(as_bytes("b2")).ok());
  std::size_t budget = kMessagesPerCall;
  for (const run::PollEvent& event : receiver_.wait(Duration(0)))
    mailbox_->note_ready(event.tag >> 2);
  mailbox_->read_ready(budget);
  (void)mailbox_->read_rings(budget);
  EXPECT_EQ(budget, 0U);
  const std::vector<std::string> all = messages();
  EXPECT_EQ(std::ranges::count(all, "b1") + std::ranges::count(all, "b2"), 2);
}

TEST_F(MailboxTest, queue_is_bounded_by_bytes) {
  const auto outbox = open("a");
  const Bytes large(kMaxNotificationBytes);
  std::size_t sent = 0;
  while (outbox->send(large).ok()) ++sent;
  EXPECT_GE(sent, kMaxQueuedBytes / large.size());
  EXPECT_LE(sent, kMaxQueuedBytes / large.size() + 16);
}

TEST_F(MailboxTest, sender_without_room_waits_and_the_other_goes_on) {
  const auto first = open("a");
  const auto second = open("b");
  events_.accept = 1;
  for (const char* text : {"a1", "a2", "a3"}) ASSERT_TRUE(first->send(as_bytes(text)).ok());
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"a1"});
  EXPECT_TRUE(receiver_.wait(Duration(0)).empty());  // waiting does not spin
  events_.accept = UINT64_MAX;
  ASSERT_TRUE(second->send(as_bytes("b1")).ok());
  receive();
  receive();
  EXPECT_EQ(events_.notifications.size(), 4u);
  EXPECT_EQ(messages()[1], "a2");
}

TEST_F(MailboxTest, kept_message_of_a_dead_sender_arrives_without_spinning) {
  auto outbox = open("a");
  events_.accept = 0;
  ASSERT_TRUE(outbox->send(as_bytes("1")).ok());
  ASSERT_TRUE(outbox->send(as_bytes("2")).ok());
  receive();
  outbox.reset();
  EXPECT_TRUE(receiver_.wait(Duration(0)).empty());
  events_.accept = UINT64_MAX;
  receive();
  EXPECT_EQ(messages(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(mailbox_->clients(), 0u);
}

TEST_F(MailboxTest, garbage_closes_its_sender_and_nobody_else) {
  const auto good = open("a");
  auto bad = unauthenticated();
  ASSERT_TRUE(*bad.send(as_bytes("Hno hello")));
  auto early = unauthenticated();
  ASSERT_TRUE(*early.send(as_bytes("Mno hello before")));
  auto large = unauthenticated();
  ASSERT_TRUE(*large.send(Bytes(kMaxNotificationBytes + 2, std::byte{'H'})));
  ASSERT_TRUE(good->send(as_bytes("1")).ok());
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
  EXPECT_EQ(mailbox_->clients(), 1u);
  EXPECT_EQ(mailbox_->refused(), 3u);
  EXPECT_EQ(bad.send(as_bytes("H")).code(), Code::peer_lost);
}

TEST_F(MailboxTest, descriptors_of_unauthenticated_are_closed) {
  auto bad = unauthenticated();
  const int fds[] = {0};
  ASSERT_TRUE(*bad.send(as_bytes("Hno hello"), fds));
  const int free_before = ::dup(0);
  ::close(free_before);
  receive();
  const int free_after = ::dup(0);
  ::close(free_after);
  EXPECT_LE(free_after, free_before);
  EXPECT_EQ(mailbox_->refused(), 1u);
}

TEST_F(MailboxTest, silent_clients_cannot_keep_others_out) {
  std::vector<sys::LocalSocket> silent;
  for (std::size_t i = 0; i < 2 * kMaxSilentClients; ++i) {
    silent.push_back(unauthenticated());
    if (i % 16 == 0) receive();
  }
  const auto good = open("a");
  ASSERT_TRUE(good->send(as_bytes("1")).ok());
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
  EXPECT_LE(mailbox_->clients(), kMaxSilentClients + 1);
  EXPECT_GE(mailbox_->refused(), kMaxSilentClients);
}

TEST_F(MailboxTest, without_a_descriptor_newcomers_wait_and_nobody_spins) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto newcomer = open("a");
  ASSERT_TRUE(newcomer->send(as_bytes("1")).ok());
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  receive();  // comes to its end
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(messages().empty());
  EXPECT_FALSE(receiver_.wait(Duration::max()).empty()) << "it is looked for again";
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
}

// Any user can connect to the name, and leaves at once: what it leaves waits to be accepted.
TEST_F(MailboxTest, a_process_that_may_open_descriptors_comes_in_however_many_wait_at_the_name) {
  const auto door = mailbox_->door();
  ASSERT_TRUE(door.ok()) << door.status().to_string();
  while (sys::LocalSocket::connect({.name = name_, .abstract = true}).ok()) continue;
  EXPECT_EQ(Outbox::open(options("by name"), sender_).code(), Code::exhausted);
  Outbox::Options by_door = options("by door");
  by_door.door = *door;
  const auto outbox = Outbox::open(by_door, sender_);
  ASSERT_TRUE(outbox.ok()) << outbox.status().to_string();
  ASSERT_TRUE((*outbox)->send(as_bytes("1")).ok());
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
  mailbox_.reset();
  EXPECT_EQ(Outbox::open(by_door, sender_).code(), Code::peer_lost);
}

TEST_F(MailboxTest, outbox_does_not_talk_to_unauthenticated) {
  Outbox::Options wrong = options("a");
  wrong.expected = 1;
  EXPECT_EQ(Outbox::open(wrong, sender_).code(), Code::denied);
  mailbox_.reset();
  EXPECT_EQ(Outbox::open(options("a"), sender_).code(), Code::peer_lost);
}

// ---- rings

TEST_F(MailboxTest, short_messages_go_by_the_ring_and_a_sleeper_is_rung_for_once) {
  const auto outbox = open("a");
  receive();
  ASSERT_TRUE(outbox->send(as_bytes("1")).ok());
  EXPECT_EQ(receiver_.wait(Duration(0)).size(), 1U) << "it had announced that it sleeps";
  receive();
  std::size_t budget = kMessagesPerCall;
  for (int i = 2; i <= 4; ++i) ASSERT_TRUE(outbox->send(as_bytes(std::to_string(i))).ok());
  receive();
  ASSERT_TRUE(outbox->send(as_bytes("5")).ok());
  EXPECT_TRUE(mailbox_->read_rings(budget)) << "without any look at the socket";
  ASSERT_TRUE(outbox->send(as_bytes("6")).ok());
  EXPECT_TRUE(mailbox_->read_rings(budget));
  receive();
  EXPECT_EQ(messages(), (std::vector<std::string>{"1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(mailbox_->refused(), 0U);
}

TEST_F(MailboxTest, an_awake_receiver_is_not_rung_for) {
  const auto outbox = open("a");
  ASSERT_TRUE(outbox->send(as_bytes("by the socket")).ok());
  std::size_t budget = kMessagesPerCall;
  mailbox_->accept_some();
  for (const run::PollEvent& event : receiver_.wait(Duration(0)))
    mailbox_->note_ready(event.tag >> 2);
  mailbox_->read_ready(budget);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(outbox->send(as_bytes("by the ring")).ok());
    EXPECT_TRUE(receiver_.wait(Duration(0)).empty());
    EXPECT_TRUE(mailbox_->read_rings(budget));
  }
  EXPECT_TRUE(mailbox_->announce_sleep());
  EXPECT_EQ(messages().size(), 11U);
}

TEST_F(MailboxTest, rings_that_say_nothing_are_not_read_from_until_they_ring) {
  std::vector<std::unique_ptr<Outbox>> outboxes;
  for (std::size_t i = 0; i < 5 * kWatchedRings; ++i) {
    outboxes.push_back(open("a"));
    receive();  // it is attached
  }
  const auto look = [&](std::uint32_t times) {
    for (std::size_t budget = kMessagesPerCall; times > 0; --times) mailbox_->read_rings(budget);
  };
  EXPECT_EQ(mailbox_->watched_rings(), outboxes.size());
  look(2 * kLooksBeforeRest);
  EXPECT_LE(mailbox_->watched_rings(), kWatchedRings);
  std::vector<std::string> sent;
  std::minstd_rand random(7);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t length = random() % 20 == 0 ? 2500 : random() % 60;
    sent.push_back(std::to_string(sent.size()) + std::string(length, 'x'));
    ASSERT_TRUE(outboxes[random() % outboxes.size()]->send(as_bytes(sent.back())).ok());
    look(random() % 8 == 0 ? kLooksBeforeRest + 1 : random() % 3);
    if (random() % 2 == 0) receive();
  }
  receive();
  std::vector<std::string> heard = messages();
  std::ranges::sort(heard);
  std::ranges::sort(sent);
  EXPECT_EQ(heard, sent);
  look(2 * kLooksBeforeRest);
  EXPECT_LE(mailbox_->watched_rings(), kWatchedRings);
}

TEST_F(MailboxTest, ring_that_rests_is_heard_again_and_one_that_is_not_empty_does_not_rest) {
  std::vector<std::unique_ptr<Outbox>> outboxes;
  for (std::size_t i = 0; i < 2 * kWatchedRings; ++i) {
    outboxes.push_back(open("a"));
    receive();
  }
  std::size_t budget = SIZE_MAX;
  const auto look = [&] {
    for (std::uint32_t i = 0; i < 3 * kLooksBeforeRest; ++i) mailbox_->read_rings(budget);
  };
  for (int round = 0; round < 3; ++round) {
    look();
    ASSERT_LE(mailbox_->watched_rings(), kWatchedRings);
    for (const auto& outbox : outboxes) ASSERT_TRUE(outbox->send(as_bytes("1")).ok());
    const auto rung = receiver_.wait(Duration(0));
    EXPECT_EQ(rung.size(), outboxes.size());
    for (const run::PollEvent& event : rung) mailbox_->note_ready(event.tag >> 2);
    mailbox_->read_ready(budget);
    mailbox_->read_rings(budget);  // nobody announces a sleep
    ASSERT_EQ(events_.notifications.size(), (round + 1) * outboxes.size());
  }
  events_.accept = 0;
  for (const auto& outbox : outboxes) ASSERT_TRUE(outbox->send(as_bytes("2")).ok());
  look();
  EXPECT_EQ(mailbox_->watched_rings(), outboxes.size());
  events_.accept = SIZE_MAX;
  mailbox_->read_rings(budget);
  EXPECT_EQ(events_.notifications.size(), 4 * outboxes.size());
}

TEST_F(MailboxTest, a_doorbell_that_finds_the_socket_full_is_not_missed) {
  const Bytes large(16 * kKiB, std::byte{7});
  const auto full = open("full");
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(full->send(large).ok());
  receive();
  const std::size_t fit = events_.notifications.size();
  ASSERT_LT(fit, 40U);

  std::vector<std::unique_ptr<Outbox>> others;
  for (std::size_t i = 0; i < kWatchedRings; ++i) {
    others.push_back(open("other"));
    receive();
  }
  const auto outbox = open("a");
  receive();
  std::size_t budget = SIZE_MAX;
  for (std::uint32_t i = 0; i < 3 * kLooksBeforeRest; ++i) mailbox_->read_rings(budget);
  ASSERT_EQ(mailbox_->watched_rings(), 0U) << "it must ring";
  events_.notifications.clear();
  for (std::size_t i = 0; i < fit; ++i) ASSERT_TRUE(outbox->send(large).ok());
  ASSERT_TRUE(outbox->send(as_bytes("by the ring")).ok());
  receive();
  ASSERT_EQ(events_.notifications.size(), fit + 1);
  EXPECT_EQ(messages().back(), "by the ring");
}

TEST_F(MailboxTest, messages_by_ring_and_socket_keep_one_order) {
  const auto outbox = open("a");
  receive();
  std::vector<std::string> sent;
  std::minstd_rand random(7);
  for (int round = 0; round < 300; ++round) {
    for (std::uint32_t i = random() % 40; i > 0; --i) {
      const std::size_t length = random() % 8 == 0 ? 2000 + random() % 5000 : random() % 60;
      sent.push_back(std::to_string(sent.size()) + std::string(length, 'x'));
      ASSERT_TRUE(outbox->send(as_bytes(sent.back())).ok());
    }
    events_.accept = random() % 3 == 0 ? random() % 20 : UINT64_MAX;
    receive();
    ASSERT_TRUE(outbox->flush().ok());
  }
  events_.accept = UINT64_MAX;
  for (int i = 0; i < 100; ++i) {
    receive();
    ASSERT_TRUE(outbox->flush().ok());
  }
  ASSERT_EQ(messages(), sent);
}

TEST_F(MailboxTest, a_full_ring_goes_on_by_the_socket_and_then_refuses) {
  const auto outbox = open("a");
  receive();
  events_.accept = 0;
  std::size_t sent = 0;
  while (outbox->send(as_bytes(std::to_string(sent))).ok()) ++sent;
  EXPECT_GT(sent, kMaxQueuedMessages + kRingBytes / 16);
  receive();
  events_.accept = UINT64_MAX;
  expect_all_in_order(*outbox, sent);
}

TEST_F(MailboxTest, what_a_dead_sender_left_in_its_ring_arrives_first) {
  auto outbox = open("a");
  receive();
  events_.accept = 0;
  for (const char* text : {"1", "2", "3"}) ASSERT_TRUE(outbox->send(as_bytes(text)).ok());
  outbox.reset();
  receive();
  EXPECT_TRUE(receiver_.wait(Duration(0)).empty()) << "waiting does not spin";
  EXPECT_EQ(mailbox_->clients(), 1U);
  events_.accept = UINT64_MAX;
  receive();
  EXPECT_EQ(messages(), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(mailbox_->clients(), 0U);
}

TEST_F(MailboxTest, a_late_doorbell_is_followed_by_a_new_announcement) {
  auto socket = unauthenticated();
  RingSender ring = *RingSender::create();
  ASSERT_TRUE(*socket.send(hello_with(ring.file())));
  receive();
  ASSERT_TRUE(ring.push(as_bytes("1"), 0));
  std::size_t budget = kMessagesPerCall;
  EXPECT_TRUE(mailbox_->read_rings(budget));
  EXPECT_TRUE(mailbox_->announce_sleep());
  EXPECT_TRUE(ring.must_ring());
  ASSERT_TRUE(*socket.send(as_bytes("D")));
  receive();
  ASSERT_TRUE(ring.push(as_bytes("2"), 0));
  EXPECT_TRUE(ring.must_ring()) << "it sleeps, and would not be woken";
}

TEST_F(MailboxTest, a_ring_that_lies_closes_its_sender_and_nobody_else) {
  const auto good = open("good");
  auto bad = unauthenticated();
  RawRing ring;
  ASSERT_TRUE(*bad.send(hello_with(ring.file())));
  receive();
  EXPECT_EQ(mailbox_->clients(), 2U);
  ASSERT_TRUE(good->send(as_bytes("1")).ok());
  ring.set_word(RawRing::kTailAt, kRingBytes + 8);
  receive();
  EXPECT_EQ(mailbox_->clients(), 1U);
  EXPECT_EQ(mailbox_->refused(), 1U);
  ASSERT_TRUE(good->send(as_bytes("2")).ok());
  receive();
  EXPECT_EQ(messages(), (std::vector<std::string>{"1", "2"}));
}

TEST_F(MailboxTest, an_end_is_seen_though_a_forked_child_has_the_sockets) {
  auto known = open("known");
  receive();
  const auto waiting = open("waiting");
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }
  ASSERT_TRUE(known->send(as_bytes("1")).ok());
  known.reset();
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
  EXPECT_EQ(mailbox_->clients(), 1U) << "the other one, which was accepted just now";
  known = open("known");
  mailbox_.reset();
  std::size_t broken = 0;
  for (const run::PollEvent& event : sender_.wait(Duration(0))) broken += event.broken ? 1 : 0;
  EXPECT_EQ(broken, 2U);
  EXPECT_EQ(known->send(as_bytes("2")).code(), Code::peer_lost);
  EXPECT_EQ(Outbox::open(options("late"), sender_).code(), Code::peer_lost);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(MailboxTest, a_hello_with_another_file_for_its_ring_goes_on_by_the_socket) {
  auto odd = unauthenticated();
  ASSERT_TRUE(*odd.send(hello_with(*file_ref(odd.fd()))));
  ASSERT_TRUE(*odd.send(as_bytes("M1")));
  receive();
  EXPECT_EQ(messages(), std::vector<std::string>{"1"});
  ASSERT_TRUE(*odd.send(as_bytes("D")));
  receive();
  EXPECT_EQ(mailbox_->clients(), 0U) << "nothing to ring for";
}

}  // namespace
}  // namespace towpath::backends::shm
