// A tier of objects that has a bound: what exceeds it goes, whoever dies when.
#include <random>

#include <gmock/gmock.h>

#include <towpath/kv/tiers/object_life_fixture.h>

namespace towpath::kv {
namespace {

using testing::ObjectTierTest;

constexpr std::uint64_t kBound = 4;

class ObjectBoundTest : public ObjectTierTest {
 protected:
  /// As the store has them.
  std::size_t objects_in_store() {
    const auto response = store_->call(
        backends::object::ask_for_page(backends::object::testing::kBucket, prefix() + "/", {}));
    return backends::object::read_page(as_text(response->body))->objects.size();
  }
  TierCapacity room() { return life_->cache->figures().below[0].room.value(); }
  bool is_below(BlockHash hash) { return (life_->block_directory.tiers_of(hash) & 0b10U) != 0; }
  void list() {
    life_->drive_until([&] { return room().blocks > 0; });
  }
};

TEST_F(ObjectBoundTest, who_was_used_longest_ago_goes_and_the_store_never_has_more) {
  begin_life(kBound);
  make_all(1, 4);
  EXPECT_EQ(room().blocks, kBound);
  for (BlockHash hash = 5; hash <= 9; ++hash) {
    make_all(hash, hash);
    EXPECT_LE(objects_in_store(), kBound);
  }
  EXPECT_EQ(room().blocks, kBound);
  EXPECT_EQ(room().most_blocks, kBound);
  EXPECT_EQ(room().evicted, 5U);
  for (BlockHash hash = 1; hash <= 9; ++hash) EXPECT_EQ(is_below(hash), hash > 5) << hash;
  EXPECT_EQ(life_->promote({1}), std::vector{Code::not_found});
}

TEST_F(ObjectBoundTest, what_is_read_stays_and_what_is_damaged_takes_no_room) {
  begin_life(kBound);
  make_all(1, 4);
  begin_life(kBound);
  list();
  Bytes damaged = *store_->get(object(4));
  damaged[kSegmentPage + 77] ^= std::byte{1};
  ASSERT_TRUE(store_->put(object(4), damaged).ok());
  EXPECT_EQ(life_->promote({1, 4}), (std::vector{Code::ok, Code::corrupt}));
  make_all(5, 6);
  EXPECT_TRUE(is_below(1)) << "it was used";
  EXPECT_EQ(is_below(2) + is_below(3), 1);
  EXPECT_FALSE(is_below(4));
  EXPECT_EQ(objects_in_store(), kBound);
}

TEST_F(ObjectBoundTest, what_says_that_it_is_another_block_stays_in_the_store) {
  begin_life(kBound);
  make_all(1, 2);
  ASSERT_TRUE(store_->put(object(1), *store_->get(object(2))).ok());
  begin_life(kBound);
  list();
  EXPECT_EQ(life_->promote({1, 2}), (std::vector{Code::corrupt, Code::ok}));
  EXPECT_FALSE(is_below(1));
  make_all(3, 3);  // what is owed to the store goes before a put
  EXPECT_EQ(objects_in_store(), 3U) << "nothing was deleted";
}

TEST_F(ObjectBoundTest, another_life_knows_what_is_there_without_looking_and_keeps_its_own_bound) {
  begin_life(kBound);
  for (BlockHash hash = 1; hash <= 4; ++hash) make_all(hash, hash);
  life_->cache->drop(1);
  begin_life(kBound);
  list();
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{2, 3, 4}).below, 3U);
  begin_life(2);
  life_->drive_until([&] { return objects_in_store() == 2; });
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{3, 4}).below, 2U) << "the younger ones";
  EXPECT_EQ(life_->promote({3, 4}), std::vector(2, Code::ok));
}

TEST_F(ObjectBoundTest, lives_that_end_anywhere_leave_no_more_than_the_bound) {
  constexpr unsigned kSeed = 8;
  SCOPED_TRACE(cat("seed ", kSeed));
  std::mt19937 random(kSeed);
  BlockHash next = 1;
  for (int life = 0; life < 6; ++life) {
    begin_life(kBound);
    for (int i = 0; i < 6; ++i) life_->make(next++);
    for (auto steps = random() % 60; steps > 0; --steps) {
      (void)life_->cache->progress();
      life_->cache->wait_for_work(std::chrono::milliseconds(1));
    }
    life_.reset();  // what was under way is cancelled: it arrives or it does not
    ASSERT_LE(objects_in_store(), kBound) << life;
  }
  begin_life(kBound);
  make_all(next, next + 3);
  EXPECT_EQ(objects_in_store(), kBound);
}

TEST_F(ObjectBoundTest, a_store_that_removes_nothing_takes_nothing_more_and_heals) {
  begin_life(kBound);
  make_all(1, 4);
  bucket_->removal_fails = error(Code::denied, "no right to delete");
  life_->make(5);
  EXPECT_EQ(life_->cache->flush().code(), Code::denied);
  EXPECT_EQ(objects_in_store(), kBound);
  EXPECT_EQ(is_below(1) + is_below(2) + is_below(3) + is_below(4), 3) << "one is on its way out";
  EXPECT_EQ(life_->cache->figures().below[0].failed.at("put: denied"), 1U);
  bucket_->removal_fails = {};
  life_->drive_until([&] {  // it rests for a moment
    if (!life_->cache->pool().find(6)) life_->make(6);
    return life_->cache->flush().ok() && is_below(6);
  });
  EXPECT_EQ(objects_in_store(), kBound);
}

TEST_F(ObjectBoundTest, a_bound_without_a_bucket_or_without_room_is_refused) {
  ObjectTierOptions options{.agent = life_->node.agent.get(),
                            .block_bytes = 100,
                            .block_directory = &life_->block_directory,
                            .tier = 1,
                            .bound_bytes = 1 << 20};
  EXPECT_EQ(ObjectTier::open(options).code(), Code::invalid_argument);
  EXPECT_EQ(ObjectTier::open(options, std::make_unique<testing::SwiftBucket>(*store_, "b")).code(),
            Code::invalid_argument)
      << "there is no clock";
  options.clock = &life_->node.clock;
  options.bound_bytes = kSegmentPage + 99;
  EXPECT_EQ(ObjectTier::open(options, std::make_unique<testing::SwiftBucket>(*store_, "b")).code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::kv
