// A TieredCache of small blocks over files in memory; with a device, in its memory, over the host's
// and such files. For tests only. Thread: one.
#pragma once

#include <gtest/gtest.h>

#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/host_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv::testing {

struct CacheShape {
  std::uint64_t slots = 8;
  std::uint64_t host_slots = 16;  ///< of the host's tier, below a device
  bool in_pieces = false;         ///< layers apart
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
    auto shaped = shape.in_pieces
                      ? std::move(builder).layer_separate(layout::BlockDimension::second)
                      : std::move(builder).fully_contiguous();
    return device_ ? *std::move(shaped).allocate_device(device_).build()
                   : *std::move(shaped).allocate_system().build();
  }
  std::unique_ptr<BlockTier> make_host_tier(CacheShape shape) {
    shape.slots = shape.host_slots;
    const memory::SharedDevice device = std::exchange(device_, nullptr);
    auto made =
        HostTier::make(make_layout(shape), {.block_directory = block_directory_.get(), .tier = 1});
    device_ = device;
    return *std::move(made);
  }

  /// What is open is closed first, as a process that ends does.
  void open(const TieredCacheOptions& options = {}, const CacheShape& shape = {}) {
    cache_.reset();
    disk_ = nullptr;
    block_directory_ = std::make_unique<BlockDirectory>();
    auto disk = DiskTier::open(files_, {.directory = "/kv",
                                        .segment_bytes = shape.segment_bytes,
                                        .capacity_bytes = shape.capacity_bytes,
                                        .incarnation = ++lives_,
                                        .block_directory = block_directory_.get(),
                                        .tier = disk_index()});
    ASSERT_TRUE(disk.ok()) << disk.status().to_string();
    disk_ = disk->get();
    std::vector<std::unique_ptr<BlockTier>> below;
    if (device_) below.push_back(make_host_tier(shape));
    below.push_back(*std::move(disk));
    for (auto& other : others_) below.push_back(std::move(other));
    others_.clear();
    auto made = TieredCache::make(
        {clock_, *block_directory_, make_layout(shape), std::move(below), meter_, device_},
        options);
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
    write_slot(slots->front().slot(), bytes);
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
    for (const BlockEvent& event : block_directory_->snapshot())
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
    while (!promotion->ended())
      if (!cache_->progress()) cache_->wait_for_work(std::chrono::milliseconds(1));
    Promoted one = std::move(promotion->take().front());
    if (one.status.ok()) expect_right(one.block, hash);
    return one.status;
  }
  void expect_right(const BlockRef& block, BlockHash hash) {
    ASSERT_TRUE(block);
    EXPECT_EQ(read_slot(block.slot()), content(hash)) << "a wrong block was served: " << hash;
    EXPECT_EQ(block.identity().digest, digest_of(content(hash), 5));
  }
  TierIndex disk_index() const { return device_ ? 2 : 1; }
  bool is_on_disk(BlockHash hash) const {
    return (block_directory_->tiers_of(hash) & 1U << disk_index()) != 0;
  }

  /// The pool's bytes, as an engine would get at them.
  void write_slot(SlotId slot, ConstByteSpan bytes) {
    if (!device_) {
      ASSERT_TRUE(scatter(bytes, cache_->layout(), slot).ok());
      return;
    }
    for_each_page(slot, [&](std::uint64_t address, std::uint64_t offset, std::uint64_t length) {
      ASSERT_TRUE(device_->copy({address, address_of(bytes.data()) + offset, length}).ok());
    });
  }
  Bytes read_slot(SlotId slot) {
    Bytes bytes(kBlockBytes);
    if (!device_) {
      EXPECT_TRUE(gather(cache_->layout(), slot, bytes).ok());
      return bytes;
    }
    for_each_page(slot, [&](std::uint64_t address, std::uint64_t offset, std::uint64_t length) {
      EXPECT_TRUE(device_->copy({address_of(bytes.data()) + offset, address, length}).ok());
    });
    return bytes;
  }
  template <typename Visit>
  void for_each_page(SlotId slot, const Visit& visit) {
    std::uint64_t offset = 0;
    for (std::uint64_t layer = 0; layer < 4; ++layer)
      for (std::uint64_t outer = 0; outer < 2; ++outer) {
        const layout::Extent page = cache_->layout().memory_region({slot, layer, outer}).value();
        visit(page.address, offset, page.size);
        offset += page.size;
      }
  }

  memory::testing::EventLog log_;
  memory::testing::RecordingRegistrar registrar_{
      log_, {.kinds = {MemoryKind::system, MemoryKind::device}}};
  ManualClock clock_;
  memory::SharedDevice device_;  // of the next open(); null: the pool is host memory
  sys::MemoryFileSystem files_;
  std::unique_ptr<BlockDirectory> block_directory_;
  DiskTier* disk_ = nullptr;                        // the cache's
  std::vector<std::unique_ptr<BlockTier>> others_;  // for the next open(), below the disk
  std::uint64_t lives_ = 0;
  telemetry::Metrics metrics_;
  telemetry::CacheMeterParts meter_;  // of the next open()
  std::unique_ptr<TieredCache> cache_;
};

}  // namespace towpath::kv::testing
