// A keeper that serves a cache, and keepers that hand their blocks over to it.
#include <numeric>

#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/rendezvous/in_process.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using testing::Holder;

class CollectorTest : public testing::PeersTest {};

/// A server and those that it serves, all driven by this thread.
struct House {
  explicit House(sys::MemoryFileSystem* disk = nullptr, std::uint32_t quota_percent = 0,
                 PolicyKind policy = PolicyKind::lru)
      : server("server", {.disk = disk,
                          .staged_blocks = 4,
                          .collects = true,
                          .quota_percent = quota_percent,
                          .policy = policy}) {
    join(server, {});
  }
  void join(Holder& holder, std::vector<std::string> others) const {
    holder.keeper->peers()->join(rendezvous::InProcess::open(directory).value(),
                                 {.others = std::move(others), .pace = Duration::zero()});
  }
  std::unique_ptr<Holder> engine(const std::string& name, Duration timeout = kTimeout,
                                 std::uint64_t staged_blocks = 4) {
    auto made = std::make_unique<Holder>(
        name,
        Holder::Options{.timeout = timeout, .staged_blocks = staged_blocks, .hands_over = true});
    join(*made, {"server"});
    made->others = [this] { (void)server.keeper->progress(); };
    EXPECT_TRUE(run::eventually([&] {
      drive(made.get());
      return made->granting().peers == 1 && server.granting().peers > 0;
    })) << made->granting().last_failure.to_string();
    return made;
  }
  void drive(Holder* engine) {
    (void)server.keeper->progress();
    if (engine != nullptr) (void)engine->keeper->progress();
  }
  /// In a tier of its own.
  bool is_kept(BlockHash hash) const {
    return server.keeper->has(hash) && server.keeper->tier_of(hash) < kPeers;
  }

  static constexpr Duration kTimeout = std::chrono::seconds(20);
  static constexpr TierIndex kPeers = 2;  // of the server with a disk
  std::shared_ptr<rendezvous::Directory> directory = std::make_shared<rendezvous::Directory>();
  Holder server;
};

std::vector<BlockHash> blocks_from(BlockHash first, std::size_t count) {
  std::vector<BlockHash> hashes(count);
  std::iota(hashes.begin(), hashes.end(), first);
  return hashes;
}

TEST_F(CollectorTest, what_an_engine_keeps_outlives_it) {
  sys::MemoryFileSystem disk;
  House house(&disk);
  auto engine = house.engine("engine");
  const auto blocks = blocks_from(11, 3 * kBlocks);  // its memory has room for a third
  for (const BlockHash hash : blocks) {
    engine->put(hash);
    ASSERT_TRUE(run::eventually([&] {
      house.drive(engine.get());
      return house.is_kept(hash);
    })) << hash
        << ": " << house.server.granting().last_failure.to_string();
  }
  engine.reset();
  auto another = house.engine("another");
  for (const BlockHash hash : blocks) {
    ASSERT_TRUE(run::eventually([&] {
      house.drive(another.get());
      return another->keeper->has(hash);
    })) << hash;
    EXPECT_TRUE(another->get(hash).ok()) << hash << another->granting().last_failure.to_string();
  }
}

TEST_F(CollectorTest, a_block_is_held_until_the_server_has_it_and_half_of_them_at_most) {
  House house;
  auto engine = house.engine("engine");
  engine->put(11);
  EXPECT_EQ(engine->keeper->room(kBlocks, 0).code(), Code::exhausted);
  ASSERT_TRUE(run::eventually([&] {
    house.drive(engine.get());
    return engine->keeper->room(kBlocks, 0).ok();
  }));
  EXPECT_TRUE(house.is_kept(11));
  for (const BlockHash hash : blocks_from(12, kBlocks)) engine->put(hash);  // nobody drives
  EXPECT_EQ(engine->keeper->room(kBlocks / 2 + 1, 0).code(), Code::exhausted);
  EXPECT_TRUE(engine->keeper->room(kBlocks / 2, 0).ok()) << "there is room for what is loaded";
}

TEST_F(CollectorTest, sync_waits_for_the_server_and_says_when_it_does_not_take_the_blocks) {
  sys::MemoryFileSystem disk;
  House house(&disk);
  auto engine = house.engine("engine", std::chrono::milliseconds(50));
  engine->put(11);
  const Status alone = engine->keeper->sync();  // nobody drives the server
  EXPECT_EQ(alone.code(), Code::unavailable) << alone.to_string();
  EXPECT_FALSE(house.is_kept(11));
  ASSERT_TRUE(run::eventually([&] {
    house.drive(engine.get());
    return house.is_kept(11);
  })) << "it is taken late";
  EXPECT_TRUE(engine->keeper->sync().ok());
}

TEST_F(CollectorTest, sync_also_says_what_was_given_up_before_and_has_not_come_since) {
  sys::MemoryFileSystem disk;
  House house(&disk);
  auto engine = house.engine("engine", std::chrono::milliseconds(50));
  const auto given_up = [&] { return engine->keeper->figures().given_up; };
  const auto is_given_up = [&](std::uint64_t count) {
    return run::eventually([&] {
      (void)engine->keeper->progress();  // nobody drives the server
      return given_up() == count;
    });
  };
  engine->put(11);
  ASSERT_TRUE(is_given_up(1)) << given_up();
  ASSERT_TRUE(run::eventually([&] {
    house.drive(engine.get());
    return engine->keeper->outlives_this(11);
  }));
  const Status late = engine->keeper->sync();
  EXPECT_TRUE(late.ok()) << late.to_string();
  constexpr std::uint64_t kMany = 3 * kBlocks;  // more than it knows by their hashes
  for (const BlockHash hash : blocks_from(101, kMany)) engine->put(hash);
  ASSERT_TRUE(is_given_up(1 + kMany)) << given_up();
  const Status lost = engine->keeper->sync();
  EXPECT_EQ(lost.code(), Code::unavailable);
  EXPECT_NE(lost.to_string().find(cat("did not take ", kMany, " blocks")), std::string::npos)
      << lost.to_string();
  EXPECT_TRUE(engine->keeper->sync().ok()) << "it is said once";
}

TEST_F(CollectorTest, what_was_evicted_at_the_server_is_not_fetched_again) {
  House house;  // memory alone
  auto engine = house.engine("engine");
  for (const BlockHash hash : blocks_from(11, kBlocks)) engine->put(hash);
  auto other = house.engine("other");
  const auto settle = [&] {
    for (int i = 0; i < 50; ++i) {
      house.drive(engine.get());
      house.drive(other.get());
    }
  };
  settle();
  for (const BlockHash hash : blocks_from(111, kBlocks)) other->put(hash);
  settle();
  const std::uint64_t granted = engine->granting().granted;
  settle();
  EXPECT_EQ(engine->granting().granted, granted);
  EXPECT_LE(granted, kBlocks);
}

TEST_F(CollectorTest, an_engine_that_is_stopped_keeps_the_server_from_no_other) {
  House house;
  auto stopped = house.engine("a stopped one");
  auto other = house.engine("other");
  const auto blocks = blocks_from(11, kBlocks);  // as many as the server has slots
  for (const BlockHash hash : blocks) stopped->put(hash);
  for (int i = 0; i < 50; ++i) (void)stopped->keeper->progress();  // it reports them, and stops
  ASSERT_TRUE(run::eventually([&] {
    house.drive(other.get());
    return std::ranges::all_of(blocks, [&](auto hash) { return house.server.keeper->has(hash); });
  }));
  for (const BlockHash hash : blocks_from(1001, 4)) {
    other->put(hash);
    EXPECT_TRUE(run::eventually([&] {
      house.drive(other.get());
      return house.server.keeper->tier_of(hash) == 0 && house.server.keeper->has(hash);
    })) << hash;
  }
  EXPECT_EQ(house.server.granting().failed_sessions, 0U) << "they waited until it was given up";
}

// Policies and tenants ---------------------------------------------------------------------------

constexpr TenantId kFlooding = 666, kOther = 7;

/// One of the server's slots after the other is taken for what `engine` keeps; of one prompt, each
/// block stands on the one before.
void flood(House& house, Holder& engine, BlockHash first, std::size_t count, TenantId tenant,
           bool of_one_prompt = false) {
  for (const BlockHash hash : blocks_from(first, count)) {
    const std::uint64_t collected = house.server.keeper->collecting().collected;
    const bool has_parent = of_one_prompt && hash > first;
    engine.put(hash, tenant, has_parent ? std::optional(hash - 1) : std::nullopt);
    ASSERT_TRUE(run::eventually([&] {
      house.drive(&engine);
      return house.server.keeper->collecting().collected > collected;
    })) << hash;
  }
}

TEST_F(CollectorTest, the_policy_of_a_server_hears_which_block_stands_on_which) {
  House house(nullptr, 0, PolicyKind::lineage);
  auto engine = house.engine("engine");
  flood(house, *engine, 11, 3, kOther, true);
  flood(house, *engine, 1001, kBlocks - 2, kOther);  // for one there is no slot
  const auto is_in_memory = [&](BlockHash hash) {
    return (house.server.block_directory->tiers_of(hash) & 1U) != 0;
  };
  EXPECT_TRUE(is_in_memory(11) && is_in_memory(12));
  EXPECT_FALSE(is_in_memory(13)) << "it was the end of a prompt, used longest ago";
}

TEST_F(CollectorTest, a_tenant_that_floods_pushes_out_nothing_of_anothers) {
  House house(nullptr, 50);
  auto engine = house.engine("engine");
  flood(house, *engine, 11, kBlocks / 2, kOther);
  flood(house, *engine, 1001, 5 * kBlocks, kFlooding);
  for (const BlockHash hash : blocks_from(11, kBlocks / 2)) EXPECT_TRUE(house.is_kept(hash));
  const auto figures = house.server.keeper->figures();
  EXPECT_EQ(figures.quota.largest, kBlocks / 2);
  EXPECT_EQ(figures.quota.tenants, 2U);
  EXPECT_EQ(figures.quota.evictions, 5 * kBlocks - kBlocks / 2);
}

TEST_F(CollectorTest, nor_in_an_engine_that_has_a_quota_itself) {
  Holder engine("alone", {.quota_percent = 50});
  for (const BlockHash hash : blocks_from(11, kBlocks / 2)) engine.put(hash, kOther);
  for (const BlockHash hash : blocks_from(1001, 5 * kBlocks)) engine.put(hash, kFlooding);
  for (const BlockHash hash : blocks_from(11, kBlocks / 2)) EXPECT_TRUE(engine.keeper->has(hash));
  EXPECT_EQ(engine.keeper->figures().quota.tenants, 2U);
}

TEST_F(CollectorTest, nor_by_asking_for_what_was_demoted) {
  sys::MemoryFileSystem disk;
  House house(&disk, 50);
  auto engine = house.engine("engine");
  flood(house, *engine, 1001, 3 * kBlocks, kFlooding);
  flood(house, *engine, 11, kBlocks / 2, kOther);
  const auto is_in_memory = [&](BlockHash hash) {
    return house.server.keeper->tier_of(hash) == 0 && house.is_kept(hash);
  };
  auto asking = house.engine("asking");
  for (const BlockHash hash : blocks_from(1001, 3 * kBlocks)) {
    ASSERT_TRUE(run::eventually([&] {
      house.drive(asking.get());
      return asking->keeper->has(hash);
    })) << hash;
    EXPECT_TRUE(asking->get(hash).ok()) << hash;
  }
  for (const BlockHash hash : blocks_from(11, kBlocks / 2)) EXPECT_TRUE(is_in_memory(hash)) << hash;
}

TEST_F(CollectorTest, what_there_is_no_room_for_now_is_still_known_to_be_there) {
  sys::MemoryFileSystem disk;
  House house(&disk, 50);  // room for half of what is asked for
  auto engine = house.engine("engine");
  flood(house, *engine, 1001, 3 * kBlocks, kFlooding);
  auto asking = house.engine("asking", House::kTimeout, kBlocks);
  const std::vector<BlockHash> hashes = blocks_from(1001, kBlocks);
  const auto all_are_there = [&] {
    house.drive(asking.get());
    return std::ranges::all_of(hashes, [&](BlockHash hash) { return asking->keeper->has(hash); });
  };
  ASSERT_TRUE(run::eventually(all_are_there));
  asking->bring(hashes);
  EXPECT_TRUE(all_are_there()) << "it forgets what the server could not grant at once";
  for (const BlockHash hash : hashes)
    EXPECT_TRUE(run::eventually([&] { return asking->get(hash).ok(); })) << hash;
}

}  // namespace
}  // namespace towpath::kv
