// Lives of a process that keeps blocks in a store: a Swift of the suite's own. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/testing/swift_fixture.h>
#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/eventually.h>

namespace towpath::kv::testing {

/// The suite's Swift, asked request by request; what it says is reported in progress().
class SwiftBucket final : public ObjectBucket {
 public:
  SwiftBucket(backends::object::Store& store, std::string bucket)
      : store_(store), bucket_(std::move(bucket)) {}

  void list(const std::string& prefix, const std::string& next, Listed listed) override {
    auto response = store_.call(backends::object::ask_for_page(bucket_, prefix, next));
    auto page = backends::object::read_page(as_text(response->body));
    BucketPage reported{.objects = {}, .next = page->next};
    for (auto& one : page->objects) reported.objects.push_back({one.key, one.bytes, one.modified});
    answers_.push_back([reported, listed] { listed(reported); });
  }
  void remove(const std::string& key, Removed removed) override {
    Status done = removal_fails;
    if (done.ok()) done = store_.remove({bucket_, key});
    if (done.code() == Code::not_found) done = {};
    answers_.push_back([done, removed] { removed(done); });
  }
  bool progress() override {
    const auto answers = std::exchange(answers_, {});
    for (const auto& answer : answers) answer();
    return !answers.empty();
  }

  Status removal_fails;

 private:
  backends::object::Store& store_;
  const std::string bucket_;
  std::vector<std::function<void()>> answers_;
};

inline Bytes content_of(BlockHash hash, std::uint64_t size_bytes) {
  Bytes bytes(size_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((hash * 31 + i * 7) % 251);
  return bytes;
}

/// A process' life: an agent, and a cache of six blocks over a store.
struct Life {
  Life(const backend::Params& params, const std::string& prefix, Duration timeout,
       std::uint64_t bound_objects = 0, std::unique_ptr<ObjectBucket> bucket = {})
      : node("node", {}, {{backends::object::object_type(), params}}) {
    layout::PhysicalLayout memory = node.build({"host"});
    block_bytes = *memory.config().block_bytes();
    auto opened = ObjectTier::open({.agent = node.agent.get(),
                                    .prefix = prefix,
                                    .block_bytes = block_bytes,
                                    .depth = 3,
                                    .timeout = timeout,
                                    .block_directory = &block_directory,
                                    .tier = 1,
                                    .bound_bytes = bound_objects * object_bytes_of(block_bytes),
                                    .clock = &node.clock},
                                   std::move(bucket));
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    tier = opened->get();
    std::vector<std::unique_ptr<BlockTier>> below;
    below.push_back(*std::move(opened));
    cache = *TieredCache::make({node.clock, block_directory, std::move(memory), std::move(below)},
                               {.batch_at_least = 1, .rest = std::chrono::milliseconds(10)});
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

  blockcopy::testing::TransferNode node;
  BlockDirectory block_directory;
  std::uint64_t block_bytes = 0;
  std::unique_ptr<TieredCache> cache;
  ObjectTier* tier = nullptr;  // the cache's
};

class ObjectTierTest : public backends::object::testing::SwiftFixture<ObjectTierTest> {
 protected:
  void SetUp() override {
    SwiftFixture::SetUp();
    if (store_) begin_life();
  }
  static std::string prefix() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  /// `bound` of objects; 0: none.
  void begin_life(std::uint64_t bound = 0) {
    life_.reset();
    std::unique_ptr<SwiftBucket> bucket;
    if (bound > 0)
      bucket = std::make_unique<SwiftBucket>(*store_, backends::object::testing::kBucket);
    bucket_ = bucket.get();
    life_ = std::make_unique<Life>(swift_->params(), prefix(), std::chrono::seconds(30), bound,
                                   std::move(bucket));
  }
  void make_all(BlockHash from, BlockHash to) {
    for (BlockHash hash = from; hash <= to; ++hash) life_->make(hash);
    const Status flushed = life_->cache->flush();
    ASSERT_TRUE(flushed.ok()) << flushed.to_string();
  }
  backends::object::ObjectName object(BlockHash hash) const {
    return {backends::object::testing::kBucket, life_->tier->key_of(hash)};
  }

  SwiftBucket* bucket_ = nullptr;  // the life's
  std::unique_ptr<Life> life_;
};

}  // namespace towpath::kv::testing
