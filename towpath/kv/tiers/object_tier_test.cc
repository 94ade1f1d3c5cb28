// Blocks that rest in a store, an object each, and come back from there in another life.
#include <gmock/gmock.h>

#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/testing/swift_fixture.h>
#include <towpath/kv/testing/transfer_node.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using backends::object::testing::kBucket;
using backends::object::testing::SwiftFixture;
using testing::TransferNode;

Bytes content_of(BlockHash hash, std::uint64_t size_bytes) {
  Bytes bytes(size_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((hash * 31 + i * 7) % 251);
  return bytes;
}

/// A process' life: an agent, and a cache of six blocks over a store.
struct Life {
  Life(const backend::Params& params, const std::string& prefix, Duration timeout)
      : node("node", {}, {{backends::object::object_type(), params}}) {
    layout::PhysicalLayout memory = node.build({"host"});
    block_bytes = *memory.config().block_bytes();
    auto opened = ObjectTier::open({.agent = node.agent.get(),
                                    .prefix = prefix,
                                    .block_bytes = block_bytes,
                                    .depth = 3,
                                    .timeout = timeout,
                                    .presence = &presence,
                                    .tier = 1});
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    tier = opened->get();
    std::vector<std::unique_ptr<BlockTier>> below;
    below.push_back(*std::move(opened));
    cache = *TieredCache::make({node.clock, presence, std::move(memory), std::move(below)},
                               {.batch_at_least = 1});
  }

  void make(BlockHash hash) {
    auto slot = std::move(cache->allocate(1)->front());
    const Bytes bytes = content_of(hash, block_bytes);
    ASSERT_TRUE(scatter(bytes, cache->layout(), slot.slot()).ok());
    ASSERT_TRUE(
        cache->register_block(CompleteBlock(std::move(slot), {{hash, {}}, digest_of(bytes, hash)}))
            .ok());
  }
  void drive_until(const std::function<bool()>& done) {
    EXPECT_TRUE(run::eventually([&] {
      (void)cache->progress();
      cache->wait_for_work(std::chrono::milliseconds(1));
      return done();
    }));
  }
  std::size_t look(const std::vector<BlockHash>& hashes) {
    cache->look(hashes);
    drive_until([&] { return cache->looking() == 0; });
    return cache->match(hashes).below;
  }
  /// What each promotion ends as. Bytes that are wrong fail the test.
  std::vector<Code> promote(const std::vector<BlockHash>& hashes) {
    std::vector<CachedBlock> blocks;
    for (const BlockHash hash : hashes) blocks.push_back({hash, {}});
    Promotion promotion = *cache->promote(blocks);
    drive_until([&] { return promotion.ended(); });
    std::vector<Code> codes;
    for (const Promoted& one : promotion.take()) {
      codes.push_back(one.status.code());
      if (!one.status.ok()) continue;
      Bytes bytes(block_bytes);
      EXPECT_TRUE(gather(cache->layout(), one.block.slot(), bytes).ok());
      EXPECT_EQ(bytes, content_of(one.block.hash(), block_bytes)) << "a wrong block was served";
    }
    return codes;
  }

  TransferNode node;
  Presence presence;
  std::uint64_t block_bytes = 0;
  std::unique_ptr<TieredCache> cache;
  ObjectTier* tier = nullptr;  // the cache's
};

class ObjectTierTest : public SwiftFixture<ObjectTierTest> {
 protected:
  void SetUp() override {
    SwiftFixture::SetUp();
    if (store_) begin_life();
  }
  void begin_life() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    life_.reset();
    life_ = std::make_unique<Life>(swift_->params(), test->name(), std::chrono::seconds(30));
  }
  void make_all(BlockHash from, BlockHash to) {
    for (BlockHash hash = from; hash <= to; ++hash) life_->make(hash);
    const Status flushed = life_->cache->flush();
    ASSERT_TRUE(flushed.ok()) << flushed.to_string();
  }
  backends::object::ObjectName object(BlockHash hash) const {
    return {kBucket, life_->tier->key_of(hash)};
  }

  std::unique_ptr<Life> life_;
};

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
  EXPECT_EQ(life_->promote({1}), std::vector{Code::not_found}) << "from now on a miss";
  EXPECT_EQ(life_->cache->figures().quarantined.at("object, coming up"), 1U);
}

TEST_F(ObjectTierTest, a_block_that_was_removed_is_there_no_more) {
  make_all(1, 2);
  life_->cache->drop(1);
  EXPECT_EQ(life_->promote({1}), std::vector{Code::not_found});
  life_->drive_until([&] { return store_->get(object(1))->size() == kSegmentPage; });
  begin_life();
  EXPECT_EQ(life_->look({2, 1}), 1U);
  life_->make(1);
  ASSERT_TRUE(life_->cache->flush().ok());
  EXPECT_EQ(life_->cache->match(std::vector<BlockHash>{1}).here.size(), 1U) << "made anew";
  begin_life();
  EXPECT_EQ(life_->look({1, 2}), 2U);
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
                            .presence = &life_->presence,
                            .tier = 1};
  EXPECT_EQ(ObjectTier::open(options).code(), Code::invalid_argument);
  options.depth = 1;
  options.tier = 0;
  EXPECT_EQ(ObjectTier::open(options).code(), Code::invalid_argument);
  TransferNode without("another");
  options.tier = 1;
  options.agent = without.agent.get();
  EXPECT_EQ(ObjectTier::open(options).code(), Code::unsupported);
}

}  // namespace
}  // namespace towpath::kv
