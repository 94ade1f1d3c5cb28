// How much one call of progress() does.
#include <list>
#include <memory>
#include <vector>

#include <towpath/backends/messages/message_backend_fixture.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using net::testing::FakeNetwork;

class MessageTurnsTest : public MessageBackendTest {};

INSTANTIATE_TEST_SUITE_P(Bodies, MessageTurnsTest,
                         ::testing::Values(Bodies::whole, Bodies::streamed), kBothWays);

// Breaks when a call sends what the windows of all peers allow.
TEST_P(MessageTurnsTest, a_call_is_bounded_over_all_peers) {
  struct Peer {
    Peer(FakeNetwork& network, const Clock& clock, int i) : side(network, clock, cat("peer", i)) {}
    Side side;
    std::unique_ptr<Connection> way;
    std::unique_ptr<Memory> remote;
    std::unique_ptr<Operation> operation;
    std::vector<Segment> segments;
  };
  std::list<Peer> peers;
  const auto turns = [&](int near, int far) {
    for (int i = 0; i < near; ++i) near_.backend->progress();
    for (Peer& peer : peers)
      for (int i = 0; i < far; ++i) peer.side.backend->progress();
  };
  for (int i = 0; i < 6; ++i) {
    Peer& peer = peers.emplace_back(network_, clock_, i);
    Side& far = peer.side;
    peer.way = near_.backend->connect(far.self, far.backend->connection_info()).value();
    peer.remote = near_.backend->import_memory(*peer.way, far.region(), far.memory->key()).value();
    peer.operation = near_.backend->make_operation();
    peer.segments = {{.local = near_.memory.get(),
                      .remote = peer.remote.get(),
                      .local_address = near_.region().address,
                      .remote_address = far.region().address,
                      .length = kPool}};
  }
  for (int i = 0; i < 20; ++i) turns(20, 20);
  for (Peer& peer : peers)
    peer.operation->post(
        {.op = TransferOp::write, .connection = peer.way.get(), .segments = peer.segments});
  turns(0, 50);  // the answers wait now
  near_.backend->progress();
  std::uint64_t sent = 0;
  for (Peer& peer : peers)
    for (const auto& message : network_.port(peer.side.port).arrived)
      sent += message.body.size() + message.rest_bytes;
  EXPECT_LE(sent, 2 * kPayloadBytes);
  for (int i = 0; i < 100; ++i) turns(10, 50);
  for (Peer& peer : peers) EXPECT_EQ(near_.events.count(*peer.operation), 1U);
}

// Breaks when a call that ends early says that there is no more: its caller would sleep.
TEST_P(MessageTurnsTest, a_call_that_brought_little_ends_and_says_that_there_may_be_more) {
  settle();
  network_.work = 100;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("text")).ok());
  std::size_t calls = 0;
  while (far_.backend->progress()) ++calls;
  EXPECT_EQ(far_.events.notifications.size(), 3U);
  EXPECT_EQ(calls, 3U);
}

}  // namespace
}  // namespace towpath::backends::messages
