// Bytes cross between machines, and a pulled cable costs those behind it and nobody else.
#include <gtest/gtest.h>

#include <towpath/backend/conformance/survivor.h>

#include "machines.h"

namespace towpath::backend::conformance {
namespace {

class MessageMachinesTest : public testing::TestWithParam<AddressFamily> {
 protected:
  void SetUp() override {
    if (const auto why = not_here(candidate_.unavailable); !why.empty()) GTEST_SKIP() << why;
    if (const auto why = not_here(Machines::why_not(GetParam())); !why.empty()) GTEST_SKIP() << why;
  }
  /// A peer on the machine of its name. The calling thread is there afterwards.
  std::unique_ptr<PeerProcess> start(const Machines& machines, const std::string& name) const {
    machines.enter(name);
    return std::make_unique<PeerProcess>(
        candidate_,
        PeerProcess::Options{.name = name, .store = Store::system, .pool_bytes = kSurvivorPool});
  }

  const Candidate candidate_ = candidates().front();
};

TEST_P(MessageMachinesTest, pulled_cable_loses_the_peer_behind_it_and_no_other) {
  const Machines machines({"near", "far", "other"}, GetParam());
  ASSERT_TRUE(machines.ready());
  auto far = start(machines, "far");
  const auto other = start(machines, "other");
  machines.enter("near");
  Survivor near(candidate_, Store::system);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(*far));
  ASSERT_NO_FATAL_FAILURE(near.meet(*other));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*far));
  EXPECT_GT(machines.received_bytes("far"), kSurvivorPool) << "the bytes took another way";

  // In the middle: both ways, more than the window of one link, and nobody makes progress.
  const auto scratch = TestMemory::make(Store::system, kSurvivorPool);
  ASSERT_TRUE(scratch.ok()) << scratch.status().to_string();
  auto registered = near.agent->register_region(scratch->region());
  ASSERT_TRUE(registered.ok()) << registered.status().to_string();
  auto pull = near.make(TransferOp::read, *scratch, *far);
  auto push = near.make(TransferOp::write, near.memory, *far);
  ASSERT_TRUE(pull.ok() && push.ok());
  ASSERT_TRUE(pull->post().ok() && push->post().ok());
  for (int i = 0; i < 5; ++i) near.agent->progress();
  machines.pull_cable("far");

  int rounds = 0;
  const auto both_ended = [&] { return pull->ended() && push->ended(); };
  for (; !both_ended() && rounds < 10'000; ++rounds)
    ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*other));
  ASSERT_TRUE(both_ended()) << "they never ended";
  EXPECT_GT(rounds, 1) << "nobody was served while the peer was silent";
  EXPECT_EQ(pull->outcome(), Outcome::peer_lost) << pull->status().to_string();
  EXPECT_EQ(push->outcome(), Outcome::peer_lost) << push->status().to_string();
  EXPECT_NE(push->status().to_string().find("silent"), std::string::npos)
      << push->status().to_string();
  EXPECT_TRUE(near.agent->peer("far")->lost);
  scratch->poison();

  machines.plug_in("far");
  far->fill(3);
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*other));
  linger({near.agent.get()});
  EXPECT_TRUE(scratch->is_poison()) << "a byte landed after the end";
  EXPECT_EQ(far->digest(), digest_of(random_bytes(3, kSurvivorPool)))
      << "a byte landed after the end";

  // The same life, by its metadata; then the next one, by its own.
  ASSERT_NO_FATAL_FAILURE(near.meet(*far));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*far));
  EXPECT_EQ(push->post().code(), Code::peer_lost) << "that connection is over";
  far.reset();
  far = start(machines, "far");
  machines.enter("near");
  ASSERT_NO_FATAL_FAILURE(near.meet(*far));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*far));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*other));
}

TEST_P(MessageMachinesTest, peer_that_cannot_be_reached_holds_nobody_up) {
  const Machines machines({"near", "far", "other"}, GetParam());
  ASSERT_TRUE(machines.ready());
  const auto far = start(machines, "far");
  const auto other = start(machines, "other");
  machines.enter("near");
  Survivor near(candidate_, Store::system);
  ASSERT_TRUE(near.ready);
  ASSERT_NO_FATAL_FAILURE(near.meet(*other));
  machines.pull_cable("far");
  // connect() inside of the carrier must not wait: then this would fail, minutes later.
  const auto loaded = near.agent->load_metadata(far->metadata());
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_FALSE(near.agent->peer("far")->lost);
  int rounds = 0;
  for (; !near.agent->peer("far")->lost && rounds < 10'000; ++rounds)
    ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*other));
  EXPECT_TRUE(near.agent->peer("far")->lost) << "nobody noticed";
  EXPECT_GT(rounds, 1) << "nobody was served meanwhile";
  machines.plug_in("far");
  ASSERT_NO_FATAL_FAILURE(near.meet(*far));
  ASSERT_NO_FATAL_FAILURE(near.expect_traffic(*far));
}

INSTANTIATE_TEST_SUITE_P(Families, MessageMachinesTest,
                         testing::Values(AddressFamily::ipv4, AddressFamily::ipv6),
                         [](const auto& one) {
                           return one.param == AddressFamily::ipv4 ? "ipv4" : "ipv6";
                         });

}  // namespace
}  // namespace towpath::backend::conformance
