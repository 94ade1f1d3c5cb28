// Conformance: the peer lives in another process, and dies or stops there.
#include <random>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/survivor.h>
#include <towpath/core/testing/seeds.h>
#include <towpath/run/deadline.h>

namespace towpath::backend::conformance {
namespace {

/// Points in flight at which a peer is killed or stopped, per direction.
constexpr std::uint64_t kSeeds = seeds_of(8);
constexpr auto kTimeout = std::chrono::seconds(60);

class ProcessConformance : public PairingTest {
 protected:
  void SetUp() override {
    PairingTest::SetUp();
    if (!IsSkipped() && !candidate().no_processes.empty()) GTEST_SKIP() << candidate().no_processes;
  }
  PeerProcess::Options options(const std::string& name = "far") const {
    return {.name = name, .store = pairing().far, .pool_bytes = kSurvivorPool};
  }
  /// After how many rounds of progress the peer is disturbed.
  static int point(std::uint64_t seed) { return static_cast<int>(std::mt19937_64(seed)() % 20); }
  /// What no late byte may change: the target, where this process can see it.
  void expect_quiesced(Survivor& near, TransferOp op, const TestMemory* far) {
    if (op == TransferOp::write && far == nullptr) return linger({near.agent.get()});
    const TestMemory& target = op == TransferOp::read ? near.memory : *far;
    target.poison();
    linger({near.agent.get()});
    EXPECT_TRUE(target.is_poison()) << "a byte landed after the end";
  }
  void kill_in_flight(TransferOp op, std::uint64_t seed);
  void stop_in_flight(TransferOp op, std::uint64_t seed);
};

TEST_P(ProcessConformance, bytes_move_both_ways) {
  const PeerProcess peer(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(peer));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(peer));
}

TEST_P(ProcessConformance, messages_cross_in_order_and_after_their_bytes) {
  if (!candidate().no_messages.empty()) GTEST_SKIP() << candidate().no_messages;
  const PeerProcess peer(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(peer));
  near.memory.write(random_bytes(9, kSurvivorPool));
  auto push =
      near.make(TransferOp::write, near.memory, peer, {.notification = to_bytes("the bytes")});
  ASSERT_TRUE(push.ok()) << push.status().to_string();
  ASSERT_TRUE(push->post().ok());
  ASSERT_EQ(push->wait(kTimeout), Outcome::done) << push->status().to_string();
  EXPECT_EQ(peer.take(1), "the bytes\n");
  EXPECT_EQ(peer.digest(), digest_of(random_bytes(9, kSurvivorPool)));
  constexpr std::size_t kMessages = 2000;
  ASSERT_TRUE(peer.send("near", kMessages));
  std::vector<agent::Notification> all;
  ASSERT_TRUE(near.run_until([&] {
    for (auto& reported : near.agent->take_notifications()) all.push_back(std::move(reported));
    return all.size() >= kMessages;
  })) << all.size();
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_EQ(as_text(all[i].message), std::to_string(i));
}

TEST_P(ProcessConformance, who_only_posts_and_waits_hears_of_a_death) {
  const PeerProcess peer(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(peer));
  const auto little = strided({.length = 64, .stride = 64, .count = 1});
  auto transfer = near.agent->create_transfer(TransferOp::read, list_of(little, near.memory),
                                              peer.name(), list_of(little, peer.region()));
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  ASSERT_TRUE(transfer->post().ok());
  ASSERT_EQ(transfer->wait(kTimeout), Outcome::done);
  peer.kill_now();
  const sys::SystemClock clock;
  const auto deadline = run::Deadline::after(clock, kTimeout);
  while (!deadline.expired(clock) && transfer->post().ok())
    ASSERT_NE(transfer->wait(kTimeout), Outcome::none);
  EXPECT_EQ(transfer->post().code(), Code::peer_lost);
}

void ProcessConformance::kill_in_flight(TransferOp op, std::uint64_t seed) {
  const PeerProcess peer(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(peer));
  near.memory.write(random_bytes(1, kSurvivorPool));
  peer.fill(2);
  const TestMemory far = pairing().far == Store::shared ? peer.map() : TestMemory();
  auto transfer = near.make(op, near.memory, peer);
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  ASSERT_TRUE(transfer->post().ok());
  for (int i = point(seed); i > 0; --i) near.agent->progress();
  peer.kill_now();
  ASSERT_TRUE(near.run_until([&] { return transfer->ended(); })) << "it never ended";
  const Outcome outcome = transfer->outcome();
  ASSERT_TRUE(outcome == Outcome::done || outcome == Outcome::peer_lost)
      << name_of(outcome) << ": " << transfer->status().to_string();
  if (op == TransferOp::read && outcome == Outcome::done) {
    EXPECT_TRUE(near.memory.read() == random_bytes(2, kSurvivorPool))
        << "done, but not all bytes are right";
  }
  expect_quiesced(near, op, pairing().far == Store::shared ? &far : nullptr);
  EXPECT_TRUE(near.run_until([&] { return near.agent->peer("far")->lost; })) << "never reported";
  EXPECT_EQ(transfer->outcome(), outcome) << "it ended twice";
  EXPECT_EQ(transfer->post().code(), Code::peer_lost);
}

TEST_P(ProcessConformance, peer_killed_in_flight) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const TransferOp op : kBothWays) {
      SCOPED_TRACE(testing::Message() << name_of(op) << ", seed " << seed);
      ASSERT_NO_FATAL_FAILURE(kill_in_flight(op, seed));
    }
  }
}

void ProcessConformance::stop_in_flight(TransferOp op, std::uint64_t seed) {
  const PeerProcess peer(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(peer));
  near.memory.write(random_bytes(1, kSurvivorPool));
  peer.fill(2);
  auto transfer = near.make(op, near.memory, peer);
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  // Short, for backends that need the peer; the others are done before it.
  const auto timeout = std::chrono::milliseconds(500);
  ASSERT_TRUE(transfer->post({.timeout = timeout, .notification = {}}).ok());
  for (int i = point(seed); i > 0; --i) near.agent->progress();
  peer.stop();
  ASSERT_TRUE(near.run_until([&] { return transfer->ended(); })) << "it never ended";
  const Outcome outcome = transfer->outcome();
  ASSERT_TRUE(outcome == Outcome::done || outcome == Outcome::timed_out)
      << name_of(outcome) << ": " << transfer->status().to_string();
  if (op == TransferOp::read) {
    if (outcome == Outcome::done) {
      EXPECT_TRUE(near.memory.read() == random_bytes(2, kSurvivorPool));
    }
    near.memory.poison();
    peer.go_on();
    EXPECT_TRUE(peer.answers());
    linger({near.agent.get()});
    EXPECT_TRUE(near.memory.is_poison()) << "a byte landed after the end";
    return;
  }
  peer.go_on();
  if (outcome == Outcome::done) {
    EXPECT_EQ(peer.digest(), digest_of(random_bytes(1, kSurvivorPool)));
  }
  peer.fill(3);
  linger({near.agent.get()});
  EXPECT_EQ(peer.digest(), digest_of(random_bytes(3, kSurvivorPool)))
      << "a byte landed after the end";
}

TEST_P(ProcessConformance, peer_stopped_in_flight) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const TransferOp op : kBothWays) {
      SCOPED_TRACE(testing::Message() << name_of(op) << ", seed " << seed);
      ASSERT_NO_FATAL_FAILURE(stop_in_flight(op, seed));
    }
  }
}

TEST_P(ProcessConformance, survivor_goes_on_with_others_and_with_the_restarted_peer) {
  const PeerProcess other(candidate(), options("other"));
  auto first = std::make_unique<PeerProcess>(candidate(), options());
  Survivor near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(*first));
  ASSERT_NO_FATAL_FAILURE(near.meet(other));
  auto old = near.make(TransferOp::read, near.memory, *first);
  ASSERT_TRUE(old.ok()) << old.status().to_string();
  first->kill_now();
  ASSERT_TRUE(near.run_until([&] { return near.agent->peer("far")->lost; }));
  first.reset();
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(other));
  const PeerProcess again(candidate(), options());
  ASSERT_NO_FATAL_FAILURE(near.meet(again));
  EXPECT_EQ(old->post().code(), Code::peer_lost) << "that life is over";
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(again));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(other));
}

INSTANTIATE_TEST_SUITE_P(Backend, ProcessConformance, testing::ValuesIn(peer_pairings()), Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProcessConformance);

}  // namespace
}  // namespace towpath::backend::conformance
