// Conformance: every transfer ends once, in the right state, and is quiesced then.
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

constexpr std::uint64_t kLong = 4 * kMiB;
/// After how many rounds of progress a transfer in flight is disturbed.
constexpr int kPoints[] = {0, 1, 3, 12};

class EndingsConformance : public PairingTest {
 protected:
  /// A transfer of all the bytes, posted and driven for `rounds`.
  agent::Transfer start(World& world, TransferOp op, int rounds,
                        const agent::PostOptions& options = {}) {
    world.fill(static_cast<std::uint64_t>(rounds));
    auto transfer = world.make(op, whole_);
    EXPECT_TRUE(transfer.ok()) << transfer.status().to_string();
    if (!transfer.ok()) return {};
    const Status posted = transfer->post(options);
    EXPECT_TRUE(posted.ok()) << posted.to_string();
    for (int i = 0; i < rounds; ++i) world.near().progress();
    return *std::move(transfer);
  }
  /// It ends, as `expected` or, having been faster, as done.
  void expect_end(World& world, const agent::Transfer& transfer, TransferOp op, Outcome expected) {
    ASSERT_TRUE(world.run_to_end(transfer)) << "it never ended";
    const Outcome outcome = transfer.outcome();
    EXPECT_TRUE(outcome == expected || outcome == Outcome::done)
        << name_of(outcome) << ": " << transfer.status().to_string();
    EXPECT_EQ(transfer.status().ok(), outcome == Outcome::done);
    if (outcome == Outcome::done) world.check(op, whole_);
    world.expect_quiesced(op);
    EXPECT_EQ(transfer.outcome(), outcome) << "it ended twice";
  }

  const World::Options options_{.pool_bytes = kLong, .far_inbox_messages = 16};
  const Shape whole_{strided({.length = kLong / 64, .stride = kLong / 64, .count = 64}),
                     strided({.length = kLong / 64, .stride = kLong / 64, .count = 64})};
};

TEST_P(EndingsConformance, cancelled_in_flight) {
  for (const TransferOp op : kBothWays) {
    for (const int rounds : kPoints) {
      SCOPED_TRACE(rounds);
      World world(candidate(), pairing(), options_);
      ASSERT_TRUE(world.ready());
      agent::Transfer transfer = start(world, op, rounds);
      transfer.cancel();
      EXPECT_NE(transfer.outcome(), Outcome::none) << "the outcome is fixed at once";
      ASSERT_NO_FATAL_FAILURE(expect_end(world, transfer, op, Outcome::cancelled));
    }
  }
}

TEST_P(EndingsConformance, deadline_passes_in_flight) {
  for (const TransferOp op : kBothWays) {
    World world(candidate(), pairing(), options_);
    ASSERT_TRUE(world.ready());
    agent::Transfer transfer = start(world, op, 0, {.timeout = Duration(0), .notification = {}});
    ASSERT_NO_FATAL_FAILURE(expect_end(world, transfer, op, Outcome::timed_out));
  }
}

TEST_P(EndingsConformance, released_handle_stops_its_transfer) {
  for (const TransferOp op : kBothWays) {
    for (const int rounds : kPoints) {
      World world(candidate(), pairing(), options_);
      ASSERT_TRUE(world.ready());
      { const agent::Transfer dropped = start(world, op, rounds); }
      EXPECT_TRUE(world.near_pool.release().ok()) << "nothing holds the memory any more";
      world.expect_quiesced(op);
    }
  }
}

TEST_P(EndingsConformance, deregistration_in_flight_ends_the_transfer_first) {
  for (const TransferOp op : kBothWays) {
    for (const int rounds : kPoints) {
      World world(candidate(), pairing(), options_);
      ASSERT_TRUE(world.ready());
      const agent::Transfer transfer = start(world, op, rounds);
      const Status released = world.near_pool.release();
      EXPECT_TRUE(released.ok()) << released.to_string();
      EXPECT_TRUE(transfer.ended()) << "released means quiet";
      ASSERT_NO_FATAL_FAILURE(expect_end(world, transfer, op, Outcome::cancelled));
    }
  }
}

TEST_P(EndingsConformance, agent_that_goes_takes_its_transfers_along) {
  for (const TransferOp op : kBothWays) {
    for (const int rounds : kPoints) {
      World world(candidate(), pairing(), options_);
      ASSERT_TRUE(world.ready());
      agent::Transfer transfer = start(world, op, rounds);
      world.end_near();
      EXPECT_TRUE(transfer.ended());
      EXPECT_TRUE(transfer.outcome() == Outcome::cancelled || transfer.outcome() == Outcome::done);
      world.expect_quiesced(op);
      EXPECT_EQ(transfer.post().code(), Code::not_ready);
    }
  }
}

TEST_P(EndingsConformance, far_memory_taken_back_fails_by_descriptor) {
  if (pairing().to_self) GTEST_SKIP() << "the agent knows of its own deregistrations";
  for (const TransferOp op : kBothWays) {
    World world(candidate(), pairing(), options_);
    ASSERT_TRUE(world.ready());
    world.fill(5);
    auto transfer = world.make(op, whole_);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_TRUE(world.far_pool.release().ok());
    ASSERT_TRUE(transfer->post().ok());
    ASSERT_TRUE(world.run_to_end(*transfer));
    EXPECT_EQ(transfer->outcome(), Outcome::failed);
    EXPECT_FALSE(transfer->status().message().empty());
    world.expect_quiesced(op);
    EXPECT_FALSE(world.near().peer("far")->lost) << "the peer itself is well";
  }
}

TEST_P(EndingsConformance, file_cut_short_fails_the_extents_beyond_its_end) {
  if (pairing().far != Store::disk && pairing().far != Store::object)
    GTEST_SKIP() << "no file, and no object";
  World world(candidate(), pairing(), options_);
  ASSERT_TRUE(world.ready());
  world.fill(6);
  auto transfer = world.make(TransferOp::read, whole_, {.merge = false});
  ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
  world.far_memory.cut(kLong / 64 * 60);
  ASSERT_TRUE(transfer->post().ok());
  ASSERT_TRUE(world.run_to_end(*transfer));
  EXPECT_EQ(transfer->outcome(), Outcome::failed);
  std::vector<std::uint64_t> failed;
  for (const agent::DescriptorError& error : transfer->errors()) failed.push_back(error.descriptor);
  EXPECT_EQ(failed, (std::vector<std::uint64_t>{60, 61, 62, 63})) << transfer->status().to_string();
}

TEST_P(EndingsConformance, peer_that_goes_in_flight_is_lost) {
  if (pairing().to_self) GTEST_SKIP() << "there is no peer";
  for (const TransferOp op : kBothWays) {
    for (const int rounds : kPoints) {
      SCOPED_TRACE(rounds);
      World world(candidate(), pairing(), options_);
      ASSERT_TRUE(world.ready());
      const agent::Transfer transfer = start(world, op, rounds);
      world.end_far();
      ASSERT_NO_FATAL_FAILURE(expect_end(world, transfer, op, Outcome::peer_lost));
      EXPECT_TRUE(world.run_until([&] { return world.near().peer("far")->lost; }));
    }
  }
}

TEST_P(EndingsConformance, forgotten_peer_ends_its_transfers) {
  if (pairing().to_self) GTEST_SKIP() << "there is no peer";
  for (const TransferOp op : kBothWays) {
    World world(candidate(), pairing(), options_);
    ASSERT_TRUE(world.ready());
    const agent::Transfer transfer = start(world, op, 2);
    ASSERT_TRUE(world.near().forget_peer("far").ok());
    ASSERT_NO_FATAL_FAILURE(expect_end(world, transfer, op, Outcome::cancelled));
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, EndingsConformance, testing::ValuesIn(all_pairings()), Labels());

}  // namespace
}  // namespace towpath::backend::conformance
