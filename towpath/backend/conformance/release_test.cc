// Conformance: memory is released while a peer, in another process, writes to it.
#include <random>
#include <string>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/survivor.h>
#include <towpath/run/deadline.h>
#include <towpath/run/eventually.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kPool = 16 * kMiB;
constexpr std::size_t kPage = 4096;
constexpr int kRounds = 40;
constexpr auto kTimeout = std::chrono::milliseconds(200);

/// The side that releases.
struct Target {
  Target(const Candidate& candidate, Store store) : registry(candidate.make_registry()) {
    auto made =
        make_agent(candidate, registry, clock, {.name = "near", .quiesce_timeout = kTimeout});
    auto memory_made = TestMemory::make(store, kPool);
    ready = made.ok() && memory_made.ok();
    EXPECT_TRUE(ready) << made.status().to_string();
    if (!ready) return;
    agent = *std::move(made);
    memory = *std::move(memory_made);
  }

  /// Registers the memory, and lets the peer write to it. False: it has no path.
  bool let_write(const PeerProcess& peer) {
    memory.write(Bytes(kPool));
    auto made = agent->register_region(memory.region());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) registration = *std::move(made);
    return peer.load_metadata(*agent->metadata()) &&
           peer.keep_writing("near", memory.region()->descriptor());
  }
  /// Makes progress until bytes have landed, and for `more` after that.
  void run_on(Duration more) {
    const ByteSpan all = memory.region()->bytes();
    const auto has_bytes = [&] {
      for (std::size_t at = 0; at < all.size(); at += kPage)
        if (all[at] != std::byte{}) return true;
      return false;
    };
    EXPECT_TRUE(run_until({agent.get()}, has_bytes)) << "nothing was written";
    const auto end = run::Deadline::after(clock, more);
    while (!end.expired(clock)) agent->progress();
  }
  /// After a poison().
  void expect_quiesced() {
    const auto end = run::Deadline::after(clock, std::chrono::milliseconds(5));
    while (!end.expired(clock)) agent->progress();
    const Bytes now = memory.read();
    EXPECT_EQ(std::ranges::count_if(now, [](std::byte byte) { return byte != kPoison; }), 0)
        << "bytes landed after release()";
  }

  sys::SystemClock clock;
  Registry registry;
  TestMemory memory;
  std::unique_ptr<agent::Agent> agent;
  memory::Registration registration;
  bool ready = false;
};

class ReleaseConformance : public PairingTest {
 protected:
  void SetUp() override {
    PairingTest::SetUp();
    if (IsSkipped()) return;
    if (!candidate().no_processes.empty()) GTEST_SKIP() << candidate().no_processes;
    if (pairing().near != Store::system && pairing().near != Store::shared)
      GTEST_SKIP() << "only memory of the host can be watched";
  }
  PeerProcess::Options options() const {
    return {.name = "far", .store = pairing().far, .pool_bytes = kPool};
  }
  static Duration moment(std::uint64_t seed) {
    return std::chrono::microseconds(std::mt19937_64(seed)() % 3000);
  }
};

TEST_P(ReleaseConformance, no_byte_lands_after_a_release_while_a_peer_writes) {
  const PeerProcess peer(candidate(), options());
  Target near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  peer.fill(2);
  for (std::uint64_t seed = 1; seed <= kRounds && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    if (!near.let_write(peer)) GTEST_SKIP() << "a peer does not write to such memory";
    near.run_on(moment(seed));
    const Status released = near.registration.release();
    ASSERT_TRUE(released.ok()) << released.to_string();
    near.memory.poison();
    near.expect_quiesced();
  }
}

TEST_P(ReleaseConformance, release_is_refused_while_a_stopped_peer_may_still_write) {
  const PeerProcess peer(candidate(), options());
  Target near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  peer.fill(2);
  for (std::uint64_t seed = 1; seed <= kRounds / 4 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    if (!near.let_write(peer)) GTEST_SKIP() << "a peer does not write to such memory";
    near.run_on(moment(seed));
    peer.stop();
    Status released = near.registration.release();
    if (!released.ok()) {
      EXPECT_EQ(released.code(), Code::not_ready) << released.to_string();
      EXPECT_NE(released.to_string().find("far"), std::string::npos) << released.to_string();
      EXPECT_TRUE(near.registration.is_registered());
      peer.go_on();
      EXPECT_TRUE(run::eventually([&] { return near.registration.release().ok(); }));
    }
    near.memory.poison();
    peer.go_on();
    EXPECT_TRUE(peer.answers());
    near.expect_quiesced();
  }
}

TEST_P(ReleaseConformance, release_does_not_wait_for_a_killed_peer) {
  for (std::uint64_t seed = 1; seed <= kRounds / 8 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PeerProcess peer(candidate(), options());
    Target near(candidate(), pairing().near);
    ASSERT_TRUE(near.ready);
    peer.fill(2);
    if (!near.let_write(peer)) GTEST_SKIP() << "a peer does not write to such memory";
    near.run_on(moment(seed));
    peer.kill_now();
    const Status released = near.registration.release();
    ASSERT_TRUE(released.ok()) << released.to_string();
    near.memory.poison();
    near.expect_quiesced();
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, ReleaseConformance, testing::ValuesIn(peer_pairings()), Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReleaseConformance);

}  // namespace
}  // namespace towpath::backend::conformance
