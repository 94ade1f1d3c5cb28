// Blocks that rest in a store, an object each, and come back from there in another life.
#include <gmock/gmock.h>

#include <towpath/kv/tiers/object_life_fixture.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::TransferNode;
using testing::Life;
using testing::ObjectTierTest;

TEST_F(ObjectTierTest, blocks_of_one_life_are_found_and_proven_in_the_next) {
  make_all(1, 6);
  EXPECT_EQ(life_->cache->figures().below[0].demoted, 6U);
  make_all(7, 9);
  EXPECT_EQ(life_->promote({1, 2, 3}), std::vector<Code>(3, Code::ok)) << "they had given way";
  begin_life();
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{4, 5}).below, 0U) << "nobody has looked";
  EXPECT_EQ(life_->look({4, 5, 6, 99}), 3U);
  EXPECT_EQ(life_->promote({4, 5, 99}), (std::vector{Code::ok, Code::ok, Code::not_found}));
}

TEST_F(ObjectTierTest, an_object_that_is_not_what_it_says_is_never_data) {
  make_all(1, 4);
  Bytes damaged = *store_->get(object(1));
  damaged.back() ^= std::byte{1};  // of the last page: the block's end or what pads it
  damaged[kSegmentPage + 77] ^= std::byte{1};
  ASSERT_TRUE(store_->put(object(1), damaged).ok());
  ASSERT_TRUE(store_->put(object(2), *store_->get(object(3))).ok());
  const Bytes whole = *store_->get(object(4));
  ASSERT_TRUE(store_->put(object(4), ConstByteSpan(whole).first(kSegmentPage + 100)).ok());
  begin_life();
  EXPECT_EQ(life_->look({3, 1, 4, 2}), 3U) << "a page is enough to see that 2 is another's";
  const std::vector<Code> came = life_->promote({1, 2, 3, 4});
  EXPECT_EQ(came[0], Code::corrupt);
  EXPECT_EQ(came[1], Code::not_found);
  EXPECT_EQ(came[2], Code::ok);
  EXPECT_NE(came[3], Code::ok);
  EXPECT_EQ(life_->promote({1, 4}), std::vector(2, Code::not_found)) << "from now on a miss";
  EXPECT_EQ(life_->cache->figures().quarantined.at("object, coming up"), 1U);
}

TEST_F(ObjectTierTest, bytes_that_are_not_the_block_never_become_an_object) {
  const Bytes block = testing::content_of(1, life_->block_bytes);
  Bytes wrong = block;
  wrong.back() ^= std::byte{1};
  TierTask task{
      .kind = TierTask::Kind::put, .hash = 1, .digest = digest_of(block, 1), .bytes = wrong};
  life_->tier->begin(task);
  ASSERT_TRUE(task.has_ended);
  EXPECT_EQ(task.status.code(), Code::corrupt);
  EXPECT_FALSE(store_->get(object(1)).ok());
}

TEST_F(ObjectTierTest, a_block_that_was_removed_is_there_no_more) {
  make_all(1, 2);
  life_->cache->drop(1);
  EXPECT_EQ(life_->promote({1}), std::vector{Code::not_found});
  life_->drive_until([&] {
    const auto found = store_->get(object(1));
    return found.ok() && found->size() == kSegmentPage;
  });
  begin_life();
  EXPECT_EQ(life_->look({2, 1}), 1U);
  life_->make(1);
  ASSERT_TRUE(life_->cache->flush().ok());
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{1}).here.size(), 1U) << "made anew";
  begin_life();
  EXPECT_EQ(life_->look({1, 2}), 2U);
}

TEST_F(ObjectTierTest, a_block_that_another_process_removed_is_a_miss_and_is_put_again) {
  make_all(1, 2);
  begin_life();
  EXPECT_EQ(life_->look({1, 2}), 2U);
  const Bytes removal = seal_record({.kind = RecordKind::removal, .hash = 1}, {});
  ASSERT_TRUE(store_->put(object(1), removal).ok());
  EXPECT_EQ(life_->promote({1, 2}), (std::vector{Code::not_found, Code::ok}));
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{1}).below, 0U);
  make_all(1, 1);
  const auto again = store_->get(object(1));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->size(), object_bytes_of(life_->block_bytes));
}

TEST_F(ObjectTierTest, a_store_that_does_not_answer_rests_and_the_host_serves_on) {
  backend::Params params = swift_->params();
  params["endpoint_override"] = "http://127.0.0.1:1";
  params["max_attempts"] = "1";
  life_ = std::make_unique<Life>(params, "gone", std::chrono::seconds(5));
  life_->make(1);
  EXPECT_FALSE(life_->cache->flush().ok());
  EXPECT_EQ(life_->cache->figures().below[0].failed.size(), 1U);
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{1}).here.size(), 1U);
  EXPECT_EQ(life_->look({7}), 0U);
}

TEST_F(ObjectTierTest, what_makes_no_sense_is_refused) {
  ObjectTierOptions options{.agent = life_->node.agent.get(),
                            .block_bytes = 100,
                            .depth = 0,
                            .block_directory = &life_->block_directory,
                            .tier = 1};
  EXPECT_EQ(ObjectTier::open(options).code(), Code::invalid_argument);
  options.depth = 1;
  for (const TierIndex none : {TierIndex{0}, kMaxTiers}) {
    options.tier = none;
    EXPECT_EQ(ObjectTier::open(options).code(), Code::invalid_argument);
  }
  blockcopy::testing::TransferNode without("another");
  options.tier = 1;
  options.agent = without.agent.get();
  EXPECT_EQ(ObjectTier::open(options).code(), Code::unsupported);
}

}  // namespace
}  // namespace towpath::kv
