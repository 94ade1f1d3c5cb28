// A TieredCache of small blocks over files in memory. For tests only. Thread: one.
#pragma once

#include <gtest/gtest.h>

#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv::testing {

struct CacheShape {
  std::uint64_t slots = 8;
  bool in_pieces = false;  ///< layers apart
  std::uint64_t inner_dim = 3;
  std::uint64_t segment_bytes = 60'000;
  std::uint64_t capacity_bytes = 10'000'000;
};

class CacheFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBlockBytes = 4 * 2 * 8 * 3 * 2;

  layout::PhysicalLayout make_layout(const CacheShape& shape) {
    layout::LayoutConfig config;
    config.num_blocks = shape.slots;
    config.num_layers = 4;
    config.outer_dim = 2;
    config.page_size = 8;
    config.inner_dim = shape.inner_dim;
    auto builder = layout::PhysicalLayoutBuilder(registrar_).with_config(config);
    return shape.in_pieces ? *std::move(builder)
                                  .layer_separate(layout::BlockDimension::second)
                                  .allocate_system()
                                  .build()
                           : *std::move(builder).fully_contiguous().allocate_system().build();
  }

  /// What is open is closed first, as a process that ends does.
  void open(const TieredCacheOptions& options = {}, const CacheShape& shape = {}) {
    cache_.reset();
    disk_ = nullptr;
    presence_ = std::make_unique<Presence>();
    auto disk = DiskTier::open(files_, {.directory = "/kv",
                                        .segment_bytes = shape.segment_bytes,
                                        .capacity_bytes = shape.capacity_bytes,
                                        .incarnation = ++lives_,
                                        .presence = presence_.get(),
                                        .tier = 1});
    ASSERT_TRUE(disk.ok()) << disk.status().to_string();
    disk_ = disk->get();
    std::vector<std::unique_ptr<BlockTier>> below;
    below.push_back(*std::move(disk));
    for (auto& other : others_) below.push_back(std::move(other));
    others_.clear();
    auto made = TieredCache::make(
        {clock_, *presence_, make_layout(shape), std::move(below), meter_}, options);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    cache_ = *std::move(made);
  }

  static Bytes content(BlockHash hash) {
    Bytes bytes(kBlockBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] =
          static_cast<std::byte>((hash * 0x9e3779b97f4a7c15ULL + i * 0x5851f42d4c957f2dULL) >> 56U);
    return bytes;
  }

  /// Makes a block; empty when no slot is to be had.
  BlockRef make(BlockHash hash, const Demotion& how = {}) {
    auto slots = cache_->allocate(1);
    if (!slots.ok()) return {};
    const Bytes bytes = content(hash);
    EXPECT_TRUE(scatter(bytes, cache_->layout(), slots->front().slot()).ok());
    auto made = cache_->register_block(
        CompleteBlock(std::move(slots->front()), {{hash, hash - 1}, digest_of(bytes, 5)}), how);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *std::move(made) : BlockRef();
  }
  void make_all(BlockHash from, BlockHash to, const Demotion& how = {}) {
    for (BlockHash hash = from; hash <= to; ++hash) (void)make(hash, how);
  }
  /// Others take every slot: what was in the pool is there no more.
  void evict_all() {
    for (const BlockEvent& event : presence_->snapshot())
      if (event.tier == 0) (void)cache_->pool().drop(event.hash);
  }

  /// As before the first life.
  void empty_the_disk() {
    cache_.reset();
    const auto names = files_.list("/kv");
    if (!names.ok()) return;
    for (const std::string& name : *names) (void)files_.remove("/kv/" + name);
  }

  /// What a promotion of one block ends as. Bytes that are wrong fail the test.
  Status promote(BlockHash hash) {
    auto promotion = cache_->promote(std::vector<CachedBlock>{{hash, hash - 1}});
    if (!promotion.ok()) return promotion.status();
    while (!promotion->ended()) (void)cache_->progress();
    Promoted one = std::move(promotion->take().front());
    if (one.status.ok()) expect_right(one.block, hash);
    return one.status;
  }
  void expect_right(const BlockRef& block, BlockHash hash) {
    ASSERT_TRUE(block);
    Bytes bytes(kBlockBytes);
    ASSERT_TRUE(gather(cache_->layout(), block.slot(), bytes).ok());
    EXPECT_EQ(bytes, content(hash)) << "a wrong block was served: " << hash;
    EXPECT_EQ(block.identity().digest, digest_of(content(hash), 5));
  }
  bool is_on_disk(BlockHash hash) const { return (presence_->tiers_of(hash) & 0b10U) != 0; }

  memory::testing::EventLog log_;
  memory::testing::RecordingRegistrar registrar_{log_, {}};
  ManualClock clock_;
  sys::MemoryFileSystem files_;
  std::unique_ptr<Presence> presence_;
  DiskTier* disk_ = nullptr;                        // the cache's
  std::vector<std::unique_ptr<BlockTier>> others_;  // for the next open(), below the disk
  std::uint64_t lives_ = 0;
  telemetry::Metrics metrics_;
  telemetry::CacheMeterParts meter_;  // of the next open()
  std::unique_ptr<TieredCache> cache_;
};

}  // namespace towpath::kv::testing
