// Slab that peers leave half filled are not lost: a peer comes after more of them than there are.
#include <gtest/gtest.h>

#include <towpath/backend/conformance/survivor.h>
#include <towpath/core/format.h>

namespace towpath::backend::conformance {
namespace {

// Of most of them one room is half filled, and there are eight.
constexpr int kPeers = 24;

class UcxDeviceStagingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = not_here(candidate_.unavailable); !why.empty()) GTEST_SKIP() << why;
    candidate_.backends.front().params.merge(Params{{"heartbeat_ms", "50"}, {"timeout_ms", "500"}});
  }
  std::unique_ptr<PeerProcess> start(const std::string& name) const {
    return std::make_unique<PeerProcess>(
        candidate_,
        PeerProcess::Options{.name = name, .store = Store::system, .pool_bytes = kSurvivorPool});
  }
  /// Reads into the device, and strikes the peer in the midst of it: when something has come, or
  /// was found to be done, so many times.
  template <typename Strike>
  void lose(Survivor& near, const PeerProcess& peer, int after, const Strike& strike) const {
    ASSERT_NO_FATAL_FAILURE(near.meet(peer));
    auto transfer = near.make(TransferOp::read, near.memory, peer);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_TRUE(transfer->post().ok());
    EXPECT_TRUE(near.run_until([&] {
      after -= near.agent->progress() ? 1 : 0;
      return after <= 0 || transfer->ended();
    }));
    strike(peer);
    ASSERT_TRUE(near.run_until([&] { return transfer->ended(); })) << "it never ended";
  }

  Candidate candidate_ = candidates().front();
};

TEST_F(UcxDeviceStagingTest, come_back_from_peers_that_die) {
  Survivor near(candidate_, Store::device);
  ASSERT_TRUE(near.ready);
  for (int i = 0; i < kPeers; ++i) {
    const auto peer = start(cat("dies", i));
    ASSERT_NO_FATAL_FAILURE(lose(near, *peer, i % 8, [](const auto& who) { who.kill_now(); }));
  }
  const auto lives = start("lives");
  ASSERT_NO_FATAL_FAILURE(near.meet(*lives));
  near.expect_traffic(*lives);
}

TEST_F(UcxDeviceStagingTest, come_back_from_peers_that_fall_silent) {
  Survivor near(candidate_, Store::device);
  ASSERT_TRUE(near.ready);
  std::vector<std::unique_ptr<PeerProcess>> silent;
  for (int i = 0; i < kPeers; ++i) {
    silent.push_back(start(cat("silent", i)));
    ASSERT_NO_FATAL_FAILURE(lose(near, *silent.back(), i % 8, [](const auto& who) { who.stop(); }));
  }
  const auto lives = start("lives");
  ASSERT_NO_FATAL_FAILURE(near.meet(*lives));
  near.expect_traffic(*lives);
}

}  // namespace
}  // namespace towpath::backend::conformance
