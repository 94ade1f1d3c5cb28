// Conformance: many transfers, from many threads, over and over, and nothing leaks.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>

#include <malloc.h>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>
#include <towpath/run/worker.h>
#include <towpath/sys/text_file.h>

namespace towpath::backend::conformance {
namespace {

class LoadConformance : public PairingTest {};

constexpr std::uint64_t kBlock = 8192;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

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

/// What the process holds.
struct Held {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  std::size_t heap_bytes = 0;
  std::size_t resident_bytes = 0;
};

Held held_now() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  const std::string maps = sys::read_text_file("/proc/self/maps", kMiB).value();
  const std::string status = sys::read_text_file("/proc/self/status").value();
  const auto resident = sys::line_after(status, "VmRSS:").value_or("");
  return {static_cast<std::size_t>(std::distance(begin(open), end(open))),
          static_cast<std::size_t>(std::ranges::count(maps, '\n')), mallinfo2().uordblks,
          sys::parse_number(resident.substr(0, resident.find("kB"))).value_or(0) * 1024};
}

constexpr int kRounds = kIsSanitized ? 200 : 1000;  // there a round takes ten times as long
constexpr int kWarmRounds = kRounds / 10;           // until caches have settled

/// Runs `round` over and over; nothing may grow with the number of rounds.
void expect_no_growth(const std::function<void(int)>& round) {
  Held before;
  for (int i = -kWarmRounds; i < kRounds; ++i) {
    if (i == 0) before = held_now();
    ASSERT_NO_FATAL_FAILURE(round(i));
  }
  const Held after = held_now();
  EXPECT_EQ(after.descriptors, before.descriptors);
  if (kIsSanitized)
    return;  // they keep what was freed, and map more for it; leaks they tell themselves
  // One of a round would be a leak; stacks of threads and the like, kept for later, are not.
  EXPECT_LT(after.mappings, before.mappings + kRounds / 10);
  // What a round leaves behind for good is larger; UCX's caches alone grew by 33 KiB in a thousand.
  EXPECT_LT(after.heap_bytes, before.heap_bytes + 256 * kRounds);
  EXPECT_LT(after.resident_bytes, before.resident_bytes + 4096 * kRounds) << "a page of a round";
}

TEST_P(LoadConformance, a_thousand_meetings_leak_nothing) {
  expect_no_growth([&](int round) {
    World world(candidate(), pairing(), {.pool_bytes = 64 * 1024});
    ASSERT_TRUE(world.ready());
    const TransferOp op = ways()[static_cast<std::size_t>(round & 1) % ways().size()];
    const Shape shape{strided({.length = kBlock, .stride = 9000, .count = 4}),
                      strided({.offset = 7, .length = kBlock, .stride = 8200, .count = 4})};
    ASSERT_NO_FATAL_FAILURE(world.move(op, shape));
    if (round % 4 == 0) world.end_far();
  });
}

TEST_P(LoadConformance, a_thousand_transfers_leak_nothing) {
  World world(candidate(), pairing(), {.pool_bytes = 64 * 1024});
  ASSERT_TRUE(world.ready());
  world.fill(5);
  const Shape shape{strided({.length = 512, .stride = 1024, .count = 16}),
                    strided({.offset = 7, .length = 512, .stride = 1040, .count = 16})};
  expect_no_growth([&](int round) {
    auto transfer = world.make(ways()[static_cast<std::size_t>(round & 1) % ways().size()], shape);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_NO_FATAL_FAILURE(world.finish(*transfer));
  });
}

INSTANTIATE_TEST_SUITE_P(Backend, LoadConformance, testing::ValuesIn(all_pairings()), Labels());

}  // namespace
}  // namespace towpath::backend::conformance
