// The n-th allocation fails, for every n, while a mailbox keeps what its owner has no room for:
// afterwards all messages arrive, once and in order, or the sender knows that they do not.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/mailbox.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/random.h>

#include "failing_allocation.h"

namespace towpath::backends::shm {
namespace {

struct Faults {
  void turn() {
    std::size_t budget = kMessagesPerCall;
    mailbox->offer_kept(budget);
    mailbox->read_rings(budget);
    for (const run::PollEvent& event : receiver.wait(Duration(0))) {
      if (event.tag == tag_of(Watch::listener, 0))
        mailbox->accept_some();
      else
        mailbox->note_ready(event.tag >> 2);
    }
    mailbox->read_ready(budget);
  }

  const std::string name = socket_name({sys::random_u64(), sys::random_u64()});
  run::Poller receiver = *run::Poller::open();
  run::Poller sender = *run::Poller::open();
  backend::testing::RecordingEvents events;
  sys::SystemClock clock;
  std::unique_ptr<Mailbox> mailbox = *Mailbox::open(name, receiver, events, clock);
  std::unique_ptr<Outbox> outbox =
      *Outbox::open({.name = name, .expected = ::getpid(), .self = {"a", 3}, .id = 1}, sender);
};

TEST(MailboxFaultsTest, what_was_sent_arrives_or_the_sender_knows_that_it_does_not) {
  const std::vector<std::string> sent = {std::string(5000, 'a'), "b", std::string(6000, 'c'), "d"};
  bool is_reached = true;
  std::size_t lost = 0;
  for (std::int64_t n = 0; is_reached; ++n) {
    Faults one;
    for (int i = 0; i < 5; ++i) one.turn();  // it is welcome
    one.events.accept = 0;
    for (const std::string& text : sent) ASSERT_TRUE(one.outbox->send(as_bytes(text)).ok());
    testing::fail_allocation(n);
    for (int i = 0; i < 5; ++i) (void)testing::survives([&] { one.turn(); });
    is_reached = testing::stop_failing();
    one.events.accept = UINT64_MAX;
    for (int i = 0; i < 5; ++i) one.turn();
    std::vector<std::string> heard;
    for (const auto& note : one.events.notifications) heard.push_back(note.message);
    // By the socket: what goes by the ring asks nobody.
    const bool is_known = !one.outbox->send(as_bytes(sent.front())).ok();
    lost += is_known ? 1 : 0;
    EXPECT_TRUE(is_known || heard == sent) << "allocation " << n << ", heard " << heard.size();
    ASSERT_LT(n, 1000);
  }
  EXPECT_GT(lost, 0U) << "nothing was tried";
}

}  // namespace
}  // namespace towpath::backends::shm
