// Conformance: whatever is done over and over, and however it ends, nothing is left behind.
#include <towpath/backend/conformance/growth.h>
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/peer_process.h>
#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kExtent = 8192;
/// So many rounds between two peers that are killed: a process costs a hundred transfers.
constexpr int kRoundsPerKill = 30;

class LeaksConformance : public PairingTest {
 protected:
  TransferOp way(int round) const {
    return ways()[static_cast<std::size_t>(round & 1) % ways().size()];
  }
};

TEST_P(LeaksConformance, meetings_leave_nothing_behind) {
  expect_no_growth([&](int round) {
    World world(candidate(), pairing(), {.pool_bytes = 64 * 1024});
    ASSERT_TRUE(world.ready());
    const TransferOp op = way(round);
    const Shape shape{strided({.length = kExtent, .stride = 9000, .count = 4}),
                      strided({.offset = 7, .length = kExtent, .stride = 8200, .count = 4})};
    ASSERT_NO_FATAL_FAILURE(world.move(op, shape));
    if (round % 4 == 0) world.end_far();
  });
}

TEST_P(LeaksConformance, transfers_leave_nothing_behind) {
  World world(candidate(), pairing(), {.pool_bytes = 64 * 1024});
  ASSERT_TRUE(world.ready());
  world.fill(5);
  const Shape shape{strided({.length = 512, .stride = 1024, .count = 16}),
                    strided({.offset = 7, .length = 512, .stride = 1040, .count = 16})};
  expect_no_growth([&](int round) {
    auto transfer = world.make(way(round), shape);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_NO_FATAL_FAILURE(world.finish(*transfer));
  });
}

/// A World in which each transfer ends in another way.
class Mixture {
 public:
  Mixture(const Candidate& candidate, const Pairing& pairing, std::span<const TransferOp> ways)
      : candidate_(candidate),
        pairing_(pairing),
        ways_(ways),
        world(candidate, pairing, {.pool_bytes = kPool}) {}

  /// Done, cancelled, overdue, let go of, and at times its peer killed: each at another point.
  void play(int round) {
    const auto number = static_cast<unsigned>(round + kRoundsPerKill * rounds());
    const TransferOp op = ways_[number % 2 % ways_.size()];
    const int steps = static_cast<int>(number / 8 % 4);
    if (number % kRoundsPerKill == 0 && candidate_.no_processes.empty() && !pairing_.to_self)
      return kill_peer(op, steps);
    // Some backends cut the connection to make a transfer quiet.
    if (world.near().peer(world.far_name())->lost) {
      ASSERT_TRUE(world.introduce().ok());
    }
    const bool is_let_go = number / 2 % 4 == 3;
    if (is_let_go) {
      ASSERT_NO_FATAL_FAILURE(renew_spare());
    }
    auto transfer = make(op, is_let_go ? spare_ : world.near_memory);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    const auto timeout = number / 2 % 4 == 1 ? Duration(0) : Duration(std::chrono::seconds(60));
    ASSERT_TRUE(transfer->post({.timeout = timeout, .notification = {}}).ok());
    for (int i = 0; i < steps; ++i) world.near().progress();
    if (number / 2 % 4 == 2) transfer->cancel();
    if (is_let_go) return;  // it drains while the next one runs
    ASSERT_TRUE(world.run_to_end(*transfer)) << "it never ended";
  }

  /// Transfers that were let go of drain, and a dead peer's sockets are closed.
  void settle() { world.linger(); }

 private:
  static constexpr std::uint64_t kPool = kMiB;
  static Shape whole() {
    constexpr Row kRow{.offset = 0, .length = kPool / 16, .stride = kPool / 16, .count = 16};
    return {strided(kRow), strided(kRow)};
  }

  /// Memory for a transfer that nobody waits for: the next one may not touch the same bytes. Giving
  /// its registration back waits until the one before is quiesced.
  void renew_spare() {
    if (spare_.region() == nullptr) {
      auto made = TestMemory::make(pairing_.near, kPool);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      spare_ = *std::move(made);
    }
    ASSERT_TRUE(spare_pool_.release().ok());
    auto registered = world.near().register_region(spare_.region());
    ASSERT_TRUE(registered.ok()) << registered.status().to_string();
    spare_pool_ = *std::move(registered);
  }

  Result<agent::Transfer> make(TransferOp op, const TestMemory& near) {
    return world.near().create_transfer(op, list_of(whole().near, near), world.far_name(),
                                        list_of(whole().far, world.far_memory));
  }

  void kill_peer(TransferOp op, int steps) {
    const PeerProcess peer(candidate_,
                           {.name = "mortal", .store = pairing_.far, .pool_bytes = kPool});
    ASSERT_TRUE(world.near().load_metadata(peer.metadata()).ok());
    ASSERT_TRUE(peer.load_metadata(*world.near().metadata()));
    auto transfer = world.near().create_transfer(op, list_of(whole().near, world.near_memory),
                                                 "mortal", list_of(whole().far, peer.region()));
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_TRUE(transfer->post().ok());
    for (int i = 0; i < steps; ++i) world.near().progress();
    peer.kill_now();
    ASSERT_TRUE(world.run_to_end(*transfer)) << "it never ended";
    ASSERT_TRUE(world.run_until([&] { return world.near().peer("mortal")->lost; }));
    ASSERT_TRUE(world.near().forget_peer("mortal").ok());
  }

  const Candidate& candidate_;
  const Pairing pairing_;
  const std::span<const TransferOp> ways_;

 public:
  World world;

 private:
  TestMemory spare_;
  memory::Registration spare_pool_;
};

TEST_P(LeaksConformance, every_end_leaves_nothing_behind) {
  Mixture mixture(candidate(), pairing(), ways());
  ASSERT_TRUE(mixture.world.ready());
  expect_no_growth([&](int round) { mixture.play(round); }, [&] { mixture.settle(); });
}

INSTANTIATE_TEST_SUITE_P(Backend, LeaksConformance, testing::ValuesIn(all_pairings()), Labels());

}  // namespace
}  // namespace towpath::backend::conformance
