// Conformance: memory is released, or a transfer ends, while a peer in another process moves bytes.
//
// `--soak-rounds=N` and `--soak-seed=S` make more rounds of each case, and others (`./dev soak`).
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <towpath/backend/conformance/growth.h>
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/survivor.h>
#include <towpath/run/deadline.h>
#include <towpath/run/eventually.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kPool = 16 * kMiB;
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kRounds = 40;
constexpr auto kTimeout = std::chrono::milliseconds(200);
constexpr std::array<std::uint64_t, 3> kExtents = {4 * kKiB, 64 * kKiB, kMiB};
/// Of so many rounds one is watched for longer.
constexpr std::uint64_t kWatchedRounds = 100;
constexpr auto kWatched = std::chrono::seconds(2);

/// The seeds of a case that usually has so many rounds.
struct Seeds {
  explicit Seeds(std::uint64_t usual)
      : first(soak().seed), end(first + soak().rounds.value_or(usual)) {}
  std::uint64_t first, end;
};
std::uint64_t extent_of(std::uint64_t seed) { return kExtents[seed % kExtents.size()]; }

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
  bool let_write(const PeerProcess& peer, std::uint64_t extent_bytes) {
    memory.write(Bytes(kPool));
    auto made = agent->register_region(memory.region());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (made.ok()) registration = *std::move(made);
    // The peer may still write to what was there before, and waits for its end: this side helps.
    const std::jthread helper([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) agent->progress();
    });
    return peer.load_metadata(*agent->metadata()) &&
           peer.keep_writing("near", memory.region()->descriptor(), extent_bytes);
  }
  /// A read of all that the peer has, in extents of so many bytes.
  Result<agent::Transfer> read_from(const PeerProcess& peer, std::uint64_t extent_bytes) {
    if (!registration.is_registered()) {
      TOWPATH_TRY(registration, agent->register_region(memory.region()));
    }
    TOWPATH_TRY(agent->load_metadata(peer.metadata()).status());
    const auto extents =
        strided({.length = extent_bytes, .stride = extent_bytes, .count = kPool / extent_bytes});
    return agent->create_transfer(TransferOp::read, list_of(extents, memory), "far",
                                  list_of(extents, peer.region()));
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
  /// Makes progress for so long; or, so that much piles up before this side, `calls` times in the
  /// end.
  void run_slowly(Duration time, std::uint64_t calls) {
    const auto end = run::Deadline::after(clock, time);
    while (!end.expired(clock))
      if (calls == 0) agent->progress();
    for (std::uint64_t i = 0; i < calls; ++i) agent->progress();
  }
  /// Poisons the memory, and looks whether it stays so.
  void expect_quiesced(const PeerProcess& peer, std::uint64_t seed) {
    memory.poison();
    peer.go_on();  // if it was stopped: now it could write
    const bool is_watched = seed % kWatchedRounds == 0;
    const auto end =
        run::Deadline::after(clock, is_watched ? Duration(kWatched) : std::chrono::milliseconds(5));
    while (!end.expired(clock)) agent->progress();
    const Bytes now = memory.read();
    EXPECT_EQ(std::ranges::count_if(now, [](std::byte byte) { return byte != kPoison; }), 0)
        << "bytes landed late";
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
  const Seeds seeds(kRounds);
  for (std::uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    if (!near.let_write(peer, extent_of(seed)))
      GTEST_SKIP() << "a peer does not write to such memory";
    near.run_on(moment(seed));
    const Status released = near.registration.release();
    ASSERT_TRUE(released.ok()) << released.to_string();
    near.expect_quiesced(peer, seed);
  }
}

TEST_P(ReleaseConformance, release_is_refused_while_a_stopped_peer_may_still_write) {
  const PeerProcess peer(candidate(), options());
  Target near(candidate(), pairing().near);
  ASSERT_TRUE(near.ready);
  peer.fill(2);
  const Seeds seeds(kRounds / 4);
  for (std::uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    if (!near.let_write(peer, extent_of(seed)))
      GTEST_SKIP() << "a peer does not write to such memory";
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
    near.expect_quiesced(peer, seed);
    EXPECT_TRUE(peer.answers());
  }
}

TEST_P(ReleaseConformance, release_does_not_wait_for_a_killed_peer) {
  const Seeds seeds(kRounds / 8);
  for (std::uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PeerProcess peer(candidate(), options());
    Target near(candidate(), pairing().near);
    ASSERT_TRUE(near.ready);
    peer.fill(2);
    if (!near.let_write(peer, extent_of(seed)))
      GTEST_SKIP() << "a peer does not write to such memory";
    near.run_on(moment(seed));
    peer.kill_now();
    // Dying takes a busy machine its time; until then it is in the middle of moving bytes.
    EXPECT_TRUE(run::eventually([&] { return near.registration.release().ok(); }));
    near.expect_quiesced(peer, seed);
  }
}

// The side that reads gives up, or its peer does: with whatever outcome the transfer ends, nothing
// lands in its memory any more, also if a peer that was stopped goes on later.
TEST_P(ReleaseConformance, no_byte_lands_after_a_read_has_ended) {
  const Seeds seeds(kRounds / 5);
  std::optional<PeerProcess> peer;
  std::optional<Target> near;
  for (std::uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    if (!near || !peer) {
      near.reset();
      peer.emplace(candidate(), options());
      near.emplace(candidate(), pairing().near);
      ASSERT_TRUE(near->ready);
      peer->fill(2);
    }
    auto read = near->read_from(*peer, extent_of(seed));
    if (!read.ok()) GTEST_SKIP() << read.status().to_string();
    const bool gives_up = random() % 2 == 0;
    const auto limit = gives_up ? moment(seed) : Duration(std::chrono::seconds(1));
    ASSERT_TRUE(read->post({.timeout = limit, .notification = {}}).ok());
    near->run_slowly(moment(seed + 1), random() % 6);
    const std::uint64_t what = random() % 4;
    if (what == 1) read->cancel();
    if (what == 2) peer->stop();
    if (what == 3) peer->kill_now();
    ASSERT_TRUE(run_until({near->agent.get()}, [&] { return read->ended(); }));
    near->expect_quiesced(*peer, seed);
    if (what < 2) continue;
    peer.reset();  // it may be lost to this side
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, ReleaseConformance, testing::ValuesIn(peer_pairings()), Labels());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ReleaseConformance);

}  // namespace
}  // namespace towpath::backend::conformance
