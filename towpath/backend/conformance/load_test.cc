// Conformance: many transfers, and many threads, at once.
#include <algorithm>
#include <atomic>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/run/worker.h>

namespace towpath::backend::conformance {
namespace {

class LoadConformance : public PairingTest {};

constexpr std::uint64_t kBlock = 8192;

TEST_P(LoadConformance, many_transfers_at_once) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  for (const TransferOp op : ways()) {
    world.fill(3);
    Shape all;
    std::vector<agent::Transfer> transfers;
    for (std::uint64_t i = 0; i < world.near_memory.size() / kBlock; ++i) {
      const Shape one{strided({.offset = i * kBlock, .length = kBlock - i}),
                      strided({.offset = i * kBlock, .length = kBlock - i})};
      all.near.push_back(one.near.front());
      all.far.push_back(one.far.front());
      auto transfer = world.make(op, one);
      ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
      transfers.push_back(*std::move(transfer));
    }
    for (agent::Transfer& transfer : transfers) ASSERT_TRUE(transfer.post().ok());
    for (const agent::Transfer& transfer : transfers) {
      ASSERT_TRUE(world.run_to_end(transfer));
      EXPECT_EQ(transfer.outcome(), Outcome::done) << transfer.status().to_string();
    }
    world.check(op, all);
  }
}

TEST_P(LoadConformance, many_threads_at_once) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  world.fill(4);
  constexpr std::uint64_t kThreads = 4;
  const std::uint64_t part = world.near_memory.size() / kThreads;
  std::atomic<std::uint64_t> done{0};
  const auto work = [&](std::uint64_t thread) {
    for (std::uint64_t round = 0; round < 50; ++round) {
      const std::uint64_t at = thread * part + round * kBlock;
      auto transfer = world.make(TransferOp::read, {strided({.offset = at, .length = kBlock}),
                                                    strided({.offset = at, .length = kBlock})});
      if (!transfer.ok() || !transfer->post().ok()) continue;
      if (transfer->wait(std::chrono::seconds(60)) == Outcome::done) done.fetch_add(1);
    }
  };
  {
    // A backend may need the owner of the memory to make progress too.
    const auto own = [&](const run::StopToken& stop) {
      while (!stop.stop_requested()) {
        if (!world.far().progress()) world.far().wait_for_work(std::chrono::milliseconds(10));
      }
    };
    auto owner = run::Worker::start("owner", own);
    ASSERT_TRUE(owner.ok());
    std::vector<run::Worker> workers;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      auto worker =
          run::Worker::start("conformance", [&, thread](const run::StopToken&) { work(thread); });
      ASSERT_TRUE(worker.ok());
      workers.push_back(*std::move(worker));
    }
    for (run::Worker& worker : workers) worker.join();
    owner->request_stop();
    owner->join();
  }
  EXPECT_EQ(done.load(), kThreads * 50);
  Shape all;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread)
    all.near.push_back({thread * part, 50 * kBlock, 0, 1, 0});
  all.far = all.near;
  world.check(TransferOp::read, all);
}

INSTANTIATE_TEST_SUITE_P(Backend, LoadConformance, testing::ValuesIn(all_pairings()), Labels());

}  // namespace
}  // namespace towpath::backend::conformance
