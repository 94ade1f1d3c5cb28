// An engine for tests of the connector: both halves of one, and a cache of six blocks between them.
// For tests only. Thread: one.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/connector/worker.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv::testing {

using blockcopy::testing::for_each_element;
using blockcopy::testing::kLayers;
using blockcopy::testing::number_of;

inline constexpr std::uint64_t kTokens = 4;  // per block
inline constexpr blockcopy::testing::CacheKind kEngineCache = {
    "engine", MemoryKind::system, layout::LayoutKind::layer_separate_block_second,
    layout::BlockFormat::hnd};

inline std::vector<TokenId> tokens_of(std::size_t count, TokenId first = 100) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// With a device of its own, the keeper has a thread.
struct Engine {
  explicit Engine(sys::MemoryFileSystem* disk, ConnectorSchedulerOptions options = {},
                  const blockcopy::testing::CacheKind& kind = kEngineCache,
                  const TieredCacheOptions& tiers = {},
                  std::unique_ptr<sys::FileDevice> device = {})
      : cache(node.build(kind)), handle(node.add(cache)) {
    options.tokens_per_block = kTokens;
    scheduler.emplace(ConnectorScheduler::make(options).value());
    TieredKeeperParts parts = parts_of(disk, std::move(device));
    parts.cache = tiers;
    block_directory = parts.block_directory.get();
    auto made = TieredKeeper::make(std::move(parts)).value();
    keeper = made.get();
    worker = ConnectorWorker::make({.manager = node.manager.get(), .clock = &node.clock}, handle,
                                   std::move(made))
                 .value();
    EXPECT_TRUE(scheduler->update(worker->take_report()).ok());
  }

  TieredKeeperParts parts_of(sys::MemoryFileSystem* disk,
                             std::unique_ptr<sys::FileDevice> device = {}) {
    static std::uint64_t incarnation = 1000;
    TieredKeeperParts parts{.clock = &node.clock, .memory = node.build({"kept"})};
    parts.background = device != nullptr;
    if (disk != nullptr)
      parts.below.push_back(DiskTier::open(*disk,
                                           {.directory = "/kv",
                                            .incarnation = ++incarnation,
                                            .block_directory = parts.block_directory.get(),
                                            .tier = 1},
                                           std::move(device))
                                .value());
    return parts;
  }

  /// What is computed for `block` of a prompt that begins with `seed`.
  void compute(std::uint64_t block, std::uint32_t seed, std::uint64_t index) {
    for_each_element(cache, block, 0, [&](const auto& at, std::byte* place) {
      std::uint64_t named[6];
      std::ranges::copy(at, named);
      named[0] = index;
      const std::uint32_t number = number_of(seed, named);
      std::memcpy(place, &number, sizeof number);
    });
  }
  bool has(std::uint64_t block, std::uint32_t seed, std::uint64_t index) {
    bool same = true;
    for_each_element(cache, block, 0, [&](const auto& at, const std::byte* place) {
      std::uint64_t named[6];
      std::ranges::copy(at, named);
      named[0] = index;
      const std::uint32_t number = number_of(seed, named);
      same = same && std::memcmp(place, &number, sizeof number) == 0;
    });
    return same;
  }
  void wipe() {
    for (const auto& region : cache.regions()) std::ranges::fill(region->bytes(), std::byte{0});
  }

  /// A step of the engine, orders and report by way of bytes.
  void step() {
    const Bytes orders = encode(scheduler->build()).value();
    ASSERT_TRUE(worker->start_step(decode_step_orders(orders).value()).ok());
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
      ASSERT_TRUE(worker->wait_for_layer_load(layer).ok());
      ASSERT_TRUE(worker->save_layer(layer).ok());
    }
    worker->wait_for_save();
    report = decode_worker_report(encode(worker->take_report()).value()).value();
    ASSERT_TRUE(scheduler->update(report).ok());
  }
  /// A prompt whose blocks are computed into `blocks`, all but what is loaded; how much is.
  std::uint64_t begin(const RequestId& id, std::uint32_t seed,
                      const std::vector<std::uint64_t>& blocks,
                      std::uint8_t priority = kUsualPriority) {
    const auto tokens = tokens_of(blocks.size() * kTokens, seed);
    const auto match = scheduler->match({.request = id, .tokens = tokens}).value();
    EXPECT_TRUE(scheduler->allocate(id, blocks, match.tokens).ok());
    for (std::uint64_t i = match.tokens / kTokens; i < blocks.size(); ++i)
      compute(blocks[i], seed, i);
    EXPECT_TRUE(scheduler
                    ->advance(id, {.computed_before = match.tokens,
                                   .computed_after = tokens.size(),
                                   .priority = priority})
                    .ok());
    return match.tokens;
  }
  std::uint64_t serve(const RequestId& id, std::uint32_t seed,
                      const std::vector<std::uint64_t>& blocks) {
    const std::uint64_t loaded = begin(id, seed, blocks);
    step();
    return loaded;
  }
  static BlockHash first_hash(std::uint32_t seed) {
    return extend(root_of({0, ""}), tokens_of(kTokens, seed));
  }
  bool is_on_disk(std::uint32_t seed) const {
    return (block_directory->tiers_of(first_hash(seed)) & 2U) != 0;
  }

  blockcopy::testing::TransferNode node{"engine"};
  layout::PhysicalLayout cache;
  blockcopy::LayoutHandle handle;
  std::optional<ConnectorScheduler> scheduler;
  TieredKeeper* keeper = nullptr;             // the worker's
  BlockDirectory* block_directory = nullptr;  // the keeper's
  std::unique_ptr<ConnectorWorker> worker;
  WorkerReport report;
};

}  // namespace towpath::kv::testing
