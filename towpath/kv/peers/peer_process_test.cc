// Keepers in processes of their own: they find each other, grant, stand still and die.
#include <csignal>
#include <deque>
#include <set>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <towpath/kv/connector/worker.h>
#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/rendezvous/peer_rendezvous.h>
#include <towpath/rendezvous/test_etcd.h>

namespace towpath::kv {
namespace {

using rendezvous::ChildProcess;
using testing::Holder;

class PeerProcessTest : public testing::PeersTest {};

using Blocks = std::vector<BlockHash>;
using Names = std::vector<std::string>;

/// Where processes meet: a scope of this test, where each asks for the others by name, or an etcd.
struct Place {
  std::string scope;
  std::string etcd_url;
  std::chrono::seconds lease = std::chrono::minutes(5);  // at etcd

  std::unique_ptr<rendezvous::Rendezvous> open(const Clock& clock) const {
    if (etcd_url.empty()) return rendezvous::PeerRendezvous::open({.scope = scope}, clock).value();
    rendezvous::EtcdOptions options;
    options.client.endpoints = {etcd_url};
    options.client.call_timeout = std::chrono::seconds(20);
    options.lease_ttl = lease;
    return rendezvous::EtcdRendezvous::open(std::move(options), clock).value();
  }
  void join(Holder& holder, const Names& others) const {
    holder.keeper->peers()->join(
        open(holder.node.clock),
        {.others = etcd_url.empty() ? others : Names(), .pace = std::chrono::milliseconds(5)});
  }
};

Place a_scope() {
  static int number = 0;
  return {.scope = cat("peers-", ::getpid(), "-", ++number)};
}

struct Owner {
  std::string name;
  Holder::Options options;
  Blocks blocks;
  Blocks wants{};
};

/// Holds blocks, grants them, and leases what it wants, until it is killed.
[[noreturn]] void be(const Owner& owner, const Place& place, const Names& others) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Holder holder(owner.name, owner.options);
  (void)::rmdir(holder.node.folder.path().c_str());  // nobody will when it is killed
  for (const BlockHash hash : owner.blocks) holder.put(hash);
  place.join(holder, others);
  for (;;) {
    (void)holder.keeper->progress();
    for (const BlockHash hash : owner.wants)
      if (holder.keeper->has(hash)) (void)holder.get(hash);
    holder.node.manager->wait_for_work(std::chrono::milliseconds(1));
  }
}

std::unique_ptr<ChildProcess> start(const Owner& owner, const Place& place, const Names& others) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) be(owner, place, others);
  return std::make_unique<ChildProcess>(child);
}

/// Until `holder` finds the blocks at its peers.
void find(Holder& holder, const Blocks& blocks) {
  ASSERT_TRUE(run::eventually([&] {
    (void)holder.keeper->progress();
    return std::ranges::all_of(blocks, [&](BlockHash hash) { return holder.keeper->has(hash); });
  })) << holder.granting().last_failure.to_string();
}

constexpr std::uint64_t kHeads = 4;                    // of the model
Blocks some_blocks() { return {11, 12, 13, 14, 15}; }  // more than are staged at once

/// Ranks of one tensor-parallel degree, each a process, and ranks of another that lease.
void feed(const Place& place, std::uint64_t owners, std::uint64_t lessees) {
  SCOPED_TRACE(cat(owners, " ranks grant to ", lessees));
  Names grant, lease;
  for (std::uint64_t i = 0; i < owners; ++i) grant.push_back(cat("grants-", i));
  for (std::uint64_t i = 0; i < lessees; ++i) lease.push_back(cat("leases-", i));
  const Blocks blocks = some_blocks();
  const auto part = [](std::uint64_t ranks, std::uint64_t rank) {
    return Holder::Options{.heads = kHeads / ranks, .first_head = rank * (kHeads / ranks)};
  };
  std::deque<std::unique_ptr<ChildProcess>> processes;
  for (std::uint64_t i = 0; i < owners; ++i)
    processes.push_back(start({grant[i], part(owners, i), blocks}, place, lease));
  for (std::uint64_t i = 0; i < lessees; ++i) {
    Holder holder(lease[i], part(lessees, i));
    place.join(holder, grant);
    find(holder, blocks);
    holder.bring(blocks);
    for (const BlockHash hash : blocks)
      EXPECT_TRUE(holder.get(hash).ok()) << holder.granting().last_failure.to_string();
    EXPECT_EQ(holder.granting().leased, blocks.size());
  }
}

TEST_F(PeerProcessTest, ranks_of_one_degree_feed_those_of_another) {
  feed(a_scope(), 2, 4);
  feed(a_scope(), 4, 2);
}

TEST_F(PeerProcessTest, they_meet_at_etcd_and_a_dead_ones_catalogue_leaves_with_its_lease) {
  using rendezvous::TestEtcd;
  if (!TestEtcd::is_installed())
    GTEST_SKIP() << TestEtcd::kBinary << " is missing: apt-get install etcd-server";
  TestEtcd etcd;
  etcd.start();
  feed({.etcd_url = etcd.url()}, 2, 4);

  const Place place{.etcd_url = etcd.url(), .lease = std::chrono::seconds(2)};
  auto owner = start({"far", {}, {11}}, place, {});
  Holder near("near", {});
  place.join(near, {});
  find(near, {11});
  owner->end(SIGKILL);
  EXPECT_TRUE(run::eventually([&] {
    (void)near.keeper->progress();
    return !near.keeper->has(11);
  }));
}

/// Wants blocks of a process that something may happen to while it is waited for.
struct Trial {
  explicit Trial(Duration timeout, bool background = false, sys::MemoryFileSystem* disk = nullptr)
      : near("near", {.disk = disk, .timeout = timeout, .background = background}) {
    owner = start({"far", {}, some_blocks()}, place, {"near"});
    place.join(near, {"far"});
    find(near, some_blocks());
  }
  /// How many came; get() has looked at every byte of them.
  std::size_t ask(const std::function<void(int waits)>& meanwhile) {
    near.others = [&, waits = 0]() mutable { meanwhile(waits++); };
    near.bring(some_blocks());
    std::size_t came = 0;
    for (const BlockHash hash : some_blocks()) {
      const Status got = near.get(hash);
      if (got.ok()) ++came;
      EXPECT_TRUE(got.ok() || got.code() == Code::not_found) << got.to_string();
    }
    return came;
  }
  Status failure() const { return near.granting().last_failure; }

  Place place = a_scope();
  Holder near;
  std::unique_ptr<ChildProcess> owner;
};

TEST_F(PeerProcessTest, an_owner_that_dies_when_it_is_asked_costs_misses_before_timeout_ends) {
  Trial trial(std::chrono::minutes(10));
  trial.owner->signal(SIGSTOP);  // so it cannot have answered
  EXPECT_EQ(trial.ask([&](int waits) {
    if (waits == 2) trial.owner->end(SIGKILL);
  }),
            0U);
  EXPECT_EQ(trial.failure().code(), Code::peer_lost) << trial.failure().to_string();
  EXPECT_FALSE(trial.near.keeper->has(11));
}

TEST_F(PeerProcessTest, an_owner_that_stands_still_costs_misses_when_timeout_ends) {
  Trial trial(std::chrono::milliseconds(50));
  trial.owner->signal(SIGSTOP);
  EXPECT_EQ(trial.ask([](int) {}), 0U);
  EXPECT_EQ(trial.failure().code(), Code::timed_out) << trial.failure().to_string();
  EXPECT_FALSE(trial.near.keeper->has(11));
  trial.owner->signal(SIGCONT);  // and its answer, now, is nobody's
  for (int i = 0; i < 20; ++i) {
    (void)trial.near.keeper->progress();
    trial.near.node.manager->wait_for_work(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(trial.ask([](int) {}), 0U);
}

/// Loads from memory and from files end while one from a peer that stands still does not. With a
/// thread the engine only takes what has ended.
void load_beside_one_that_stands_still(bool background) {
  SCOPED_TRACE(background ? "with a thread" : "by hand");
  sys::MemoryFileSystem disk;
  Trial trial(std::chrono::minutes(10), background, &disk);
  for (BlockHash hash = 21; hash < 21 + 2 * blockcopy::testing::kBlocks; ++hash) {
    trial.near.put(hash);
    ASSERT_TRUE(trial.near.keeper->sync().ok());  // the second half evicts the first
  }
  trial.owner->signal(SIGSTOP);
  blockcopy::testing::TransferNode& node = trial.near.node;
  const auto worker = ConnectorWorker::make({.manager = node.manager.get()}, node.add({"engine"}),
                                            std::move(trial.near.keeper))
                          .value();
  ASSERT_TRUE(worker
                  ->start_step({.loads = {{"peer", true, {{11, 0}, {12, 1}}},
                                          {"disk", true, {{21, 2}}},
                                          {"memory", true, {{32, 3}}},
                                          {"of the step", false, {{31, 4}, {22, 5}}}}})
                  .ok());
  std::set<RequestId> received;
  const auto receive = [&](std::size_t count, bool drives) {
    return run::eventually([&] {
      if (drives) (void)worker->progress();
      for (const RequestId& request : worker->take_finished().received) received.insert(request);
      return received.size() >= count;
    });
  };
  ASSERT_TRUE(receive(2, !background));
  EXPECT_EQ(received, (std::set<RequestId>{"disk", "memory"}));
  EXPECT_TRUE(worker->wait_for_layer_load(0).ok());
  trial.owner->signal(SIGCONT);
  ASSERT_TRUE(receive(3, true)) << "the thread that drives the manager asks the peer";
  EXPECT_TRUE(worker->take_failed_blocks().empty());
  EXPECT_EQ(worker->figures().loaded_blocks, 6U);
}

TEST_F(PeerProcessTest, while_an_owner_stands_still_loads_from_memory_and_files_end) {
  load_beside_one_that_stands_still(false);
  load_beside_one_that_stands_still(true);
}

TEST_F(PeerProcessTest, with_a_thread_an_owner_that_dies_or_stands_still_costs_misses) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    Trial trial(std::chrono::seconds(1), true);
    trial.owner->signal(SIGSTOP);
    EXPECT_EQ(trial.ask([&](int waits) {
      if (waits == 2 && signal == SIGKILL) trial.owner->end(SIGKILL);
    }),
              0U);
    EXPECT_FALSE(trial.near.keeper->has(11));
  }
  Trial trial(std::chrono::minutes(10), true);
  EXPECT_EQ(trial.ask([](int) {}), some_blocks().size());
}

TEST_F(PeerProcessTest, a_keeper_with_a_thread_ends_while_an_owner_stands_still) {
  Trial trial(std::chrono::minutes(10), true);
  trial.owner->signal(SIGSTOP);
  std::vector<CachedBlock> wanted;
  for (const BlockHash hash : some_blocks()) wanted.push_back({hash});
  auto coming = trial.near.keeper->bring(wanted, kUsualPriority);
  for (int i = 0; i < 20; ++i) {
    (void)trial.near.keeper->progress();
    trial.near.keeper->wait_for_work(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(coming->left(), some_blocks().size());
  coming.reset();
  trial.near.keeper.reset();
}

TEST_F(PeerProcessTest, what_a_killed_lessee_was_granted_is_let_go_before_its_lease_ends) {
  const Place place = a_scope();
  auto lessee = start({"far", {}, {}, {11}}, place, {"near"});
  Holder near("near", {.lease = std::chrono::minutes(10)});
  near.put(11);
  place.join(near, {"far"});
  const auto progress_until = [&](const std::function<bool()>& is_so) {
    return run::eventually([&] {
      (void)near.keeper->progress();
      return is_so();
    });
  };
  ASSERT_TRUE(progress_until([&] { return near.keeper->peers()->is_granting(); }))
      << near.granting().last_failure.to_string();
  lessee->signal(SIGSTOP);  // it was not answered, so it cannot let go
  ASSERT_TRUE(progress_until([&] { return near.granting().granted > 0; }));
  EXPECT_TRUE(near.keeper->peers()->is_granting());
  lessee->end(SIGKILL);
  EXPECT_TRUE(progress_until([&] { return !near.keeper->peers()->is_granting(); }));
}

TEST_F(PeerProcessTest, what_came_before_an_owner_was_killed_stays) {
  Trial trial(std::chrono::minutes(10));
  std::uint64_t before = 0;
  const std::size_t came = trial.ask([&](int) {
    if (trial.near.granting().leased == 0 || before > 0) return;
    before = trial.near.granting().leased;
    trial.owner->end(SIGKILL);
  });
  EXPECT_GT(before, 0U);
  EXPECT_GE(came, before);
  const bool was_too_late = came == some_blocks().size();
  EXPECT_TRUE(was_too_late || trial.failure().code() == Code::peer_lost)
      << trial.failure().to_string();
}

TEST_F(PeerProcessTest, an_owner_killed_at_any_wait_costs_misses_and_nothing_else) {
  constexpr int kManyWaits = 200;
  std::size_t came = 0;
  int wait = 0;
  for (; wait < kManyWaits && came < some_blocks().size(); ++wait) {  // until it is too late
    Trial trial(std::chrono::minutes(10));
    came = trial.ask([&](int waits) {
      if (waits == wait) trial.owner->end(SIGKILL);
    });
    std::printf("killed at wait %d: %zu of %zu blocks came\n", wait, came, some_blocks().size());
  }
  EXPECT_GT(wait, 1) << "it was never too early";
  EXPECT_EQ(came, some_blocks().size()) << "it was never too late";
}

}  // namespace
}  // namespace towpath::kv
