// ProgressEngine and Inbox without an agent around them. What an agent's user sees of them:
// notifications_test, looks_test, waiting_room_test.
#include <gtest/gtest.h>

#include <towpath/agent/testing/agent_parts.h>

namespace towpath::agent {
namespace {

TEST(InboxTest, takes_messages_up_to_its_bounds_and_says_that_some_were_refused) {
  Inbox inbox({.messages = 2, .bytes = 10});
  const AgentIdentity from{"peer", 1};
  EXPECT_FALSE(inbox.has_some());
  EXPECT_TRUE(inbox.put(from, Bytes(6)));
  EXPECT_FALSE(inbox.put(from, Bytes(5))) << "too many bytes";
  EXPECT_TRUE(inbox.put(from, Bytes(4)));
  EXPECT_FALSE(inbox.put(from, Bytes())) << "too many messages";
  EXPECT_TRUE(inbox.has_some());
  const Inbox::Taken taken = inbox.take();
  EXPECT_EQ(taken.messages.size(), 2U);
  EXPECT_TRUE(taken.was_full);
  EXPECT_FALSE(inbox.has_some());
  EXPECT_TRUE(inbox.put(from, Bytes(11)))
      << "an empty one takes any message, or it would never come";
  EXPECT_FALSE(inbox.take().was_full);
}

TEST(ProgressEngineTest, a_full_inbox_takes_messages_again_once_it_is_emptied) {
  Script script;
  AgentParts parts("one", script);
  const AgentIdentity from{"peer", 1};
  for (int i = 0; i < 3; ++i) (void)parts.engine->deliver(from, Bytes(1));
  EXPECT_EQ(parts.engine->take_notifications().size(), 2U);
  EXPECT_EQ(parts.engine->wait_notifications(Duration(0)).size(), 0U);
  int turns = 0;
  script.on_progress = [&] { ++turns; };
  (void)parts.engine->progress();
  EXPECT_EQ(turns, 1) << "every backend has its turn";
}

TEST(ProgressEngineTest, a_forgotten_peer_keeps_its_connection_until_its_transfers_have_ended) {
  Script script;
  script.can.quiesced = backend::Quiescence::bounded;
  AgentParts left("left", script);
  AgentParts right("right", script);
  ASSERT_TRUE(left.peers->load(*right.registrations->metadata({})).ok());
  const PeerPtr peer = *left.peers->find("right");
  BackendInstance& instance = left.backends->at(0);
  const auto side = std::make_shared<PreparedSide>();
  side->peer = peer;
  const auto active = std::make_shared<TransferCore>();
  active->local = std::make_shared<PreparedSide>();
  active->remote = side;
  active->instance = &instance;
  active->deadline = Instant::never();
  active->operation = instance.backend->make_operation();
  active->operation->owner = active.get();
  script.is_eager = false;
  left.engine->with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) { instance.post(*active); });
  ASSERT_TRUE(left.peers->forget("right").ok());
  (void)left.engine->progress();
  EXPECT_NE(peer->paths[0].connection, nullptr);
  left.engine->with(instance, [&] { script.active.front()->complete({}); });
  (void)left.engine->progress();
  EXPECT_EQ(peer->paths[0].connection, nullptr);
}

}  // namespace
}  // namespace towpath::agent
