#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/blocks/block_table.h>
#include <towpath/kv/blocks/pool_fixture.h>
#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/kv/eviction/naive_policies_fixture.h>
#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {
namespace {

using testing::make_pool;
using testing::put;

TEST(SequenceHashTest, a_name_depends_on_tokens_order_salt_name_space_and_all_before) {
  const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto hashes = *sequence_hashes({7, "llama"}, tokens, 4);
  ASSERT_EQ(hashes.size(), 2U) << "the ninth token is in no whole block";
  EXPECT_EQ(hashes[1], extend(extend(root_of({7, "llama"}), std::span(tokens).first(4)),
                              std::span(tokens).subspan(4, 4)));
  const auto differs = [&](const SequenceRoot& root, std::vector<TokenId> other) {
    return (*sequence_hashes(root, other, 4))[1] != hashes[1];
  };
  EXPECT_FALSE(differs({7, "llama"}, tokens));
  EXPECT_TRUE(differs({8, "llama"}, tokens));
  EXPECT_TRUE(differs({7, "llama-lora"}, tokens));
  EXPECT_TRUE(differs({7, "llama"}, {9, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(differs({7, "llama"}, {5, 6, 7, 8, 1, 2, 3, 4}));
  EXPECT_EQ(sequence_hashes({}, tokens, 0).code(), Code::invalid_argument);
}

TEST(SequenceHashTest, a_room_is_no_block_whatever_bytes_name_it) {
  const std::vector<TokenId> tokens{1, 2, 3, 4};
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.data()), 16);
  const BlockHash root = root_of({7, "llama"});
  EXPECT_EQ(root_of({root, bytes}), extend(root, tokens)) << "which would give one's to the other";
  std::set<BlockHash> names;
  for (std::size_t size = 0; size <= tokens.size(); ++size)
    names.insert(extend(root, std::span(tokens).first(size)));
  for (std::size_t size = 0; size <= bytes.size(); ++size)
    EXPECT_TRUE(names.insert(root_of_room(root, bytes.substr(0, size))).second) << size;
}

TEST(BlockTableTest, agrees_with_a_map_while_homes_collide) {
  std::vector<BlockTable::Entry> places(BlockTable::places_for(85));
  BlockTable table(places);
  std::map<BlockHash, SlotId> model;
  std::mt19937_64 random(2);
  for (int step = 0; step < 300'000; ++step) {
    const BlockHash hash = random() % 150;
    BlockTable::Entry* const entry = table.find(hash);
    ASSERT_EQ(entry != nullptr, model.contains(hash)) << step;
    if (entry != nullptr) {
      ASSERT_EQ(entry->slot, model[hash]) << step;
      if (random() % 2 == 0) {
        table.erase(hash);
        model.erase(hash);
      }
    } else if (!table.full()) {
      table.insert(hash, static_cast<SlotId>(step)).references = step % 2;
      model[hash] = static_cast<SlotId>(step);
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(BlockPoolTest, a_block_is_found_only_once_it_is_registered) {
  const auto pool = make_pool(4);
  auto partial = pool->allocate(1);
  const SlotId slot = partial->front().slot();
  CompleteBlock complete(std::move(partial->front()), {{7, {}}, {.value = 99}});
  EXPECT_TRUE(pool->match(std::vector<BlockHash>{7}).empty());
  const BlockRef block = *pool->register_block(std::move(complete));
  EXPECT_EQ(block.slot(), slot);
  const auto found = pool->match(std::vector<BlockHash>{7, 8});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].identity().digest.value, 99U);
}

TEST(BlockPoolTest, what_dies_before_it_is_registered_gives_its_slot_back) {
  const auto pool = make_pool(2);
  {
    auto partial = pool->allocate(2);
    EXPECT_EQ(pool->allocate(1).code(), Code::exhausted);
    const CompleteBlock complete(std::move(partial->front()), {});
    EXPECT_EQ(pool->figures().free, 0U);
  }
  EXPECT_EQ(pool->figures().free, 2U);
  EXPECT_EQ(pool->allocate(3).code(), Code::exhausted) << "all or none";
  EXPECT_EQ(pool->figures().free, 2U);
}

TEST(BlockPoolTest, match_ends_at_the_first_miss_and_scan_goes_on) {
  const auto pool = make_pool(4);
  for (const BlockHash hash : {1U, 2U, 4U}) (void)put(*pool, hash);
  const std::vector<BlockHash> wanted{1, 2, 3, 4};
  EXPECT_EQ(pool->match(wanted).size(), 2U);
  const auto scanned = pool->scan(wanted);
  ASSERT_EQ(scanned.size(), 4U);
  EXPECT_FALSE(scanned[2]);
  EXPECT_EQ(scanned[3].hash(), 4U);
  EXPECT_EQ(pool->figures().held, 3U);
}

TEST(BlockPoolTest, a_block_on_another_than_was_asked_for_is_a_hash_collision) {
  const auto pool = make_pool(4);
  for (const BlockHash hash : {1U, 2U, 3U}) (void)put(*pool, hash);  // each on the one before
  const std::vector<BlockHash> prompt{1, 2, 3};
  EXPECT_EQ(pool->match(with_parents(prompt)).size(), 3U);
  const std::vector<CachedBlock> collides{{1, {}}, {2, 1}, {3, 77}};
  EXPECT_EQ(pool->match(collides).size(), 2U);
  EXPECT_EQ(pool->figures().hash_collisions, 1U);
  const std::vector<CachedBlock> does_not_say{{2, {}}, {3, {}}};
  EXPECT_EQ(pool->match(does_not_say).size(), 2U);
  EXPECT_EQ(pool->figures().hash_collisions, 1U);
}

TEST(BlockPoolTest, a_lineage_goes_back_to_the_first_or_to_a_gap) {
  const auto pool = make_pool(8);
  const auto hashes_of = [](const std::vector<BlockRef>& blocks) {
    std::vector<BlockHash> hashes;
    for (const BlockRef& block : blocks) hashes.push_back(block.hash());
    return hashes;
  };
  using ::testing::ElementsAre;
  for (const BlockHash hash : {3U, 5U, 6U, 7U}) (void)put(*pool, hash);
  EXPECT_THAT(hashes_of(pool->lineage(pool->find(7))), ElementsAre(5, 6, 7));
  EXPECT_THAT(hashes_of(pool->lineage(pool->find(3))), ElementsAre(3));
  EXPECT_TRUE(pool->lineage(BlockRef()).empty());
  const auto circle = make_pool(2);
  for (const BlockHash hash : {1U, 2U})
    (void)circle->register_block(
        CompleteBlock(std::move(circle->allocate(1)->front()), {{hash, 3 - hash}, {}}));
  EXPECT_EQ(circle->lineage(circle->find(1)).size(), 2U) << "hashes that collide: it ends";
}

TEST(BlockPoolTest, who_is_held_stays_and_of_the_others_the_one_let_go_longest_ago_goes) {
  const auto pool = make_pool(3);
  const BlockRef held = put(*pool, 1);
  (void)put(*pool, 2);
  (void)put(*pool, 3);
  (void)pool->match(std::vector<BlockHash>{2});
  (void)put(*pool, 4);
  EXPECT_TRUE(pool->match(std::vector<BlockHash>{3}).empty());
  EXPECT_EQ(pool->match(std::vector<BlockHash>{1, 2, 4}).size(), 3U);
  EXPECT_EQ(pool->figures().evictions, 1U);
  EXPECT_EQ(pool->evictions(), 1U);
}

TEST(BlockPoolTest, a_weak_block_comes_back_only_as_itself) {
  const auto pool = make_pool(1);
  BlockRef block = put(*pool, 1);
  const WeakBlock weak = pool->weak(block);
  EXPECT_TRUE(pool->upgrade(weak));
  block = {};
  EXPECT_TRUE(pool->upgrade(weak)) << "let go, but still here";
  (void)put(*pool, 2);
  EXPECT_FALSE(pool->upgrade(weak));
  (void)put(*pool, 1);
  EXPECT_FALSE(pool->upgrade(weak)) << "the same name in the same slot, and another block";
  EXPECT_FALSE(pool->upgrade(pool->weak(pool->find(3)))) << "of a block that is not here";
  const auto one = make_pool(1), other = make_pool(1);
  (void)put(*one, 1);
  EXPECT_FALSE(one->upgrade(one->weak(put(*other, 1)))) << "of another pool's";
}

TEST(BlockPoolTest, a_duplicate_is_refused_or_kept_apart_as_asked) {
  for (const Duplicates duplicates : {Duplicates::refuse, Duplicates::allow}) {
    const auto pool = make_pool(2, nullptr, duplicates);
    const BlockRef first = put(*pool, 1);
    BlockRef second = put(*pool, 1);
    const bool kept = duplicates == Duplicates::allow;
    EXPECT_EQ(first.slot() != second.slot(), kept);
    EXPECT_EQ(pool->figures().free, kept ? 0U : 1U);
    EXPECT_EQ(pool->match(std::vector<BlockHash>{1})[0].slot(), first.slot());
    const BlockRef copy = second;
    second = {};
    EXPECT_EQ(copy.hash(), 1U);
    EXPECT_EQ(pool->figures().duplicates, 1U);
  }
}

TEST(BlockPoolTest, a_dropped_block_is_found_no_more_and_its_slot_waits_for_its_holders) {
  const auto pool = make_pool(2);
  BlockRef block = put(*pool, 1);
  (void)put(*pool, 2);
  EXPECT_TRUE(pool->drop(1));
  EXPECT_FALSE(pool->drop(1));
  EXPECT_TRUE(pool->drop(2));
  EXPECT_EQ(pool->figures().free, 1U);
  const BlockRef anew = put(*pool, 1);
  EXPECT_NE(anew.slot(), block.slot());
  EXPECT_EQ(BlockRef(block).hash(), 1U);
  block = {};
  EXPECT_EQ(pool->figures().free, 1U);
}

TEST(BlockPoolTest, pools_that_make_no_sense_are_refused) {
  EXPECT_EQ(BlockPool::make({}).code(), Code::invalid_argument);
  EXPECT_EQ(BlockPool::make({.slots = 1, .tier = kMaxTiers}).code(), Code::invalid_argument);
}

TEST(BlockDirectoryTest, reports_which_tiers_have_a_block_and_what_changed) {
  BlockDirectory block_directory;
  EXPECT_TRUE(block_directory.add(1, 2, 9));
  EXPECT_FALSE(block_directory.add(1, 2));
  EXPECT_TRUE(block_directory.add(1, 0));
  EXPECT_EQ(block_directory.tiers_of(1), 0b101U);
  EXPECT_EQ(block_directory.fastest(1), TierIndex{0});
  EXPECT_TRUE(block_directory.remove(1, 0));
  EXPECT_FALSE(block_directory.remove(1, 0));
  EXPECT_EQ(block_directory.fastest(1), TierIndex{2});
  using Kind = BlockEvent::Kind;
  EXPECT_THAT(
      block_directory.take_events().events,
      ::testing::ElementsAre(BlockEvent{Kind::stored, 2, 1, 9}, BlockEvent{Kind::stored, 0, 1, {}},
                             BlockEvent{Kind::removed, 0, 1, {}}));
  EXPECT_TRUE(block_directory.take_events().events.empty());
  EXPECT_EQ(block_directory.snapshot().size(), 1U);
}

TEST(BlockDirectoryTest, news_that_nobody_takes_are_dropped_and_that_is_reported) {
  BlockDirectory block_directory(64);
  for (BlockHash hash = 0; hash < 1000; ++hash) block_directory.add(hash, 0);
  const auto events = block_directory.take_events();
  EXPECT_TRUE(events.some_were_lost);
  EXPECT_LE(events.events.size(), 1000U / 8) << "one for every eighth block";
  EXPECT_EQ(block_directory.snapshot().size(), 1000U);
  EXPECT_EQ(block_directory.size(), 1000U);
  EXPECT_FALSE(block_directory.take_events().some_were_lost);
}

TEST(BlockDirectoryTest, of_many_blocks_a_part_may_change_before_news_are_dropped) {
  BlockDirectory block_directory(64);
  for (BlockHash hash = 0; hash < 64'000; ++hash) block_directory.add(hash, 0);
  (void)block_directory.take_events();
  for (BlockHash hash = 0; hash < 4'000; ++hash) block_directory.remove(hash, 0);
  const auto events = block_directory.take_events();
  EXPECT_FALSE(events.some_were_lost);
  EXPECT_EQ(events.events.size(), 4'000U);
}

/// The pool as a map and a list: what is registered, how often it is held, in which order let go.
struct PoolModel {
  std::map<BlockHash, int> held;
  std::list<BlockHash> let_go;  // oldest first

  void hold(BlockHash hash) {
    if (held[hash]++ == 0) let_go.remove(hash);
  }
  void let(BlockHash hash) {
    if (--held[hash] == 0) let_go.push_back(hash);
  }
};

// With one shard the order is exact; events rebuild the same picture elsewhere.
TEST(BlockPoolTest, agrees_with_a_simple_map_over_half_a_million_steps) {
  constexpr SlotId kSlots = 50;
  BlockDirectory block_directory;
  const auto pool = make_pool(kSlots, &block_directory);
  PoolModel model;
  std::vector<BlockRef> mine;
  std::map<BlockHash, int> heard;
  std::mt19937_64 random(13);
  for (int step = 0; step < 500'000; ++step) {
    const BlockHash hash = 1 + random() % 90;
    switch (random() % 8) {
      case 0:
      case 1: {  // put
        const bool full = model.held.size() == kSlots;
        const bool evicts = full && !model.let_go.empty();
        BlockRef block = put(*pool, hash);
        ASSERT_EQ(static_cast<bool>(block), !full || evicts) << step;
        if (!block) break;
        if (evicts) {  // before the name of the new one is looked for
          model.held.erase(model.let_go.front());
          model.let_go.pop_front();
        }
        model.hold(hash);
        mine.push_back(std::move(block));
        break;
      }
      case 2: {  // match
        const std::vector<BlockHash> wanted{hash, hash + 1, hash + 2};
        std::size_t expected = 0;
        while (expected < 3 && model.held.contains(wanted[expected]))
          model.hold(wanted[expected++]);
        auto found = pool->match(wanted);
        ASSERT_EQ(found.size(), expected) << step;
        for (BlockRef& block : found) mine.push_back(std::move(block));
        break;
      }
      case 3:  // drop, only what nobody holds: the model has no unlisted ones
        if (model.held.contains(hash) && model.held[hash] == 0) {
          ASSERT_TRUE(pool->drop(hash)) << step;
          model.held.erase(hash);
          model.let_go.remove(hash);
        }
        break;
      default:  // let go, more often than take
        if (mine.empty()) break;
        std::swap(mine[random() % mine.size()], mine.back());
        model.let(mine.back().hash());
        mine.pop_back();
    }
    if (step % 1000 != 0) continue;
    for (const BlockEvent& event : block_directory.take_events().events)
      heard[event.hash] += event.kind == BlockEvent::Kind::stored ? 1 : -1;
    std::erase_if(heard, [](const auto& entry) { return entry.second == 0; });
    ASSERT_EQ(heard.size(), model.held.size()) << step;
    ASSERT_EQ(pool->figures().registered, model.held.size()) << step;
  }
}

TEST(BlockPoolTest, looking_at_a_block_is_no_use_of_it) {
  const auto pool = make_pool(2);
  const WeakBlock first = pool->weak(put(*pool, 1));
  (void)put(*pool, 2);
  BlockHash seen = 0;
  EXPECT_TRUE(pool->look(first, [&](const BlockIdentity& identity, SlotId slot) {
    seen = identity.block.hash;
    EXPECT_EQ(slot, first.slot);
    EXPECT_TRUE(put(*pool, 3)) << "of the two, the one that is looked at stays";
  }));
  EXPECT_EQ(seen, 1U);
  EXPECT_TRUE(pool->find(1));
  EXPECT_FALSE(pool->find(2));
  (void)pool->find(3);
  (void)pool->look(first, [](const BlockIdentity&, SlotId) {});
  (void)put(*pool, 4);
  EXPECT_FALSE(pool->look(first, [](const BlockIdentity&, SlotId) {})) << "it was the oldest still";
}

/// A pool beside a naive policy that is told the same.
class PolicyInPool {
 public:
  static constexpr SlotId kSlots = 20;
  explicit PolicyInPool(PolicyKind kind)
      : pool_(*BlockPool::make({.slots = kSlots, .policy = kind})),
        naive_(testing::make_naive(kind, kSlots)) {}

  void step(std::mt19937_64& random) {
    const BlockHash hash = 1 + random() % 40;
    BlockRef block = pool_->find(hash);
    ASSERT_EQ(static_cast<bool>(block), slots_.contains(hash));
    if (block) {
      naive_->touch(block.slot());
      if (random() % 4 == 0) held_.push_back(block);
      const bool drops = random() % 8 == 0 && !is_held(hash);
      block = {};
      if (drops) drop(hash);
    } else if (random() % 2 == 0) {
      make(hash);
    }
    if (!held_.empty() && random() % 3 == 0) held_.erase(held_.begin());
  }

 private:
  bool is_held(BlockHash hash) const {
    return std::ranges::any_of(held_, [&](const BlockRef& block) { return block.hash() == hash; });
  }
  void drop(BlockHash hash) {
    naive_->remove(slots_.at(hash));
    slots_.erase(hash);
    ASSERT_TRUE(pool_->drop(hash));
  }
  std::optional<BlockHash> expected_victim() {
    if (slots_.size() < kSlots) return std::nullopt;
    const auto in = [&](SlotId slot) {
      return std::ranges::find_if(slots_, [&](const auto& e) { return e.second == slot; })->first;
    };
    const auto slot = naive_->victim([&](SlotId one) { return !is_held(in(one)); });
    return slot ? std::optional(in(*slot)) : std::nullopt;
  }
  void make(BlockHash hash) {
    const auto victim = expected_victim();
    std::vector<Evicted> evicted;
    auto room = pool_->allocate(1, &evicted);
    ASSERT_EQ(room.ok(), slots_.size() < kSlots || victim);
    if (!room.ok()) return;
    ASSERT_EQ(evicted.size(), victim ? 1U : 0U);
    if (victim) {
      ASSERT_EQ(evicted[0].identity.block.hash, *victim);
      ASSERT_EQ(evicted[0].slot, slots_.at(*victim));
      naive_->remove(evicted[0].slot);
      slots_.erase(*victim);
    }
    const CachedBlock block{hash, hash - 1};
    slots_[hash] = room->front().slot();
    naive_->insert(slots_[hash], block);
    ASSERT_TRUE(pool_->register_block(CompleteBlock(std::move(room->front()), {block, {}})).ok());
  }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<EvictionPolicy> naive_;
  std::map<BlockHash, SlotId> slots_;
  std::vector<BlockRef> held_;
};

TEST(BlockPoolTest, evicts_whom_its_policy_names_and_never_who_is_held) {
  for (const PolicyKind kind : {PolicyKind::fifo, PolicyKind::s3_fifo, PolicyKind::lfu,
                                PolicyKind::multi_lru, PolicyKind::lineage}) {
    std::mt19937_64 random(17);
    PolicyInPool both(kind);
    for (int step = 0; step < 20'000; ++step) {
      both.step(random);
      ASSERT_FALSE(::testing::Test::HasFailure()) << name_of(kind) << ", step " << step;
    }
  }
}

TEST(BlockPoolTest, what_is_spent_goes_first_unless_it_is_used_again) {
  for (const PolicyKind policy : {PolicyKind::lru, PolicyKind::adaptive}) {
    const auto pool = *BlockPool::make({.slots = 5, .policy = policy});
    for (BlockHash hash = 1; hash <= 5; ++hash) (void)put(*pool, hash);
    EXPECT_FALSE(pool->spend(9));
    const BlockRef held = pool->find(2);
    for (const BlockHash hash : {2, 5, 3, 4}) EXPECT_TRUE(pool->spend(hash));
    (void)pool->find(3);
    std::vector<Evicted> gone;
    (void)pool->allocate(2, &gone);
    ASSERT_EQ(gone.size(), 2U);
    EXPECT_EQ(gone[0].identity.block.hash, 5U);
    EXPECT_EQ(gone[1].identity.block.hash, 4U);
    EXPECT_TRUE(pool->find(1) && pool->find(2) && pool->find(3));
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(pool->spend(1));
      EXPECT_TRUE(pool->find(1));
    }
    (void)put(*pool, 6);
    EXPECT_TRUE(pool->find(1)) << "it was used since";
  }
}

TEST(BlockPoolTest, what_is_spent_while_it_is_held_goes_first_once_it_is_let_go) {
  for (const PolicyKind policy : {PolicyKind::lru, PolicyKind::adaptive}) {
    BlockDirectory block_directory;
    const auto pool =
        *BlockPool::make({.slots = 3, .policy = policy, .block_directory = &block_directory});
    for (BlockHash hash = 1; hash <= 3; ++hash) (void)put(*pool, hash);
    BlockRef held = pool->find(3);
    EXPECT_TRUE(pool->spend(3));
    (void)put(*pool, 4);
    EXPECT_NE(block_directory.tiers_of(3), 0);
    held = {};
    (void)put(*pool, 5);
    EXPECT_EQ(block_directory.tiers_of(3), 0);
  }
}

TEST(BlockPoolTest, many_threads_leave_it_as_sound_as_one) {
  constexpr SlotId kSlots = 5000;  // four shards
  BlockDirectory block_directory;
  const auto pool = make_pool(kSlots, &block_directory, Duplicates::allow);
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&pool, seed] {
      std::mt19937_64 random(seed);
      std::vector<BlockRef> mine;
      for (int step = 0; step < 20'000; ++step) {
        const BlockHash hash = 1 + random() % 8000;
        switch (random() % 4) {
          case 0: mine.push_back(put(*pool, hash)); break;
          case 1: {
            auto found = pool->match(std::vector<BlockHash>{hash, hash + 1});
            for (BlockRef& block : found) {
              if (block.identity().digest.value != block.hash()) std::abort();
              if (const BlockRef again = pool->upgrade(pool->weak(block));
                  again && again.hash() != block.hash())
                std::abort();
              mine.push_back(std::move(block));
            }
            break;
          }
          case 2: (void)pool->drop(hash); break;
          default:
            if (mine.size() > 500) mine.erase(mine.begin(), mine.begin() + 250);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto figures = pool->figures();
  EXPECT_EQ(figures.held, 0U);
  EXPECT_EQ(figures.free + figures.registered, kSlots);
  EXPECT_EQ(pool->evictions(), figures.evictions);
  EXPECT_EQ(block_directory.snapshot().size(), figures.registered);
}

}  // namespace
}  // namespace towpath::kv
