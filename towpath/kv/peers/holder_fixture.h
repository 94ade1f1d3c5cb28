// Holder: a keeper with peers on a node of its own, whose blocks hold numbers that follow from
// their hashes; Lessee: one that only asks; and what tests with such peers begin with. For tests
// only. Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::kv::testing {

/// Tests between agents whose memory is plain: one copies it out of the other's process.
class PeersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = sys::testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// Has heads [first_head, first_head + heads) of a model.
struct Holder {
  struct Options {
    std::uint64_t heads = 2;
    std::uint64_t first_head = 0;
    std::string name_space = "model";
    sys::MemoryFileSystem* disk = nullptr;
    Duration timeout = std::chrono::seconds(20);
    Duration lease = std::chrono::seconds(10);
    bool background = false;
    std::uint64_t staged_blocks = 4;
    bool collects = false;
    bool hands_over = false;
    std::uint32_t quota_percent = 0;
    PolicyKind policy = PolicyKind::lru;
    bool in_pieces = false;        ///< each block of its memory
    const Clock* clock = nullptr;  ///< what it has with peers goes by; null: the node's
  };
  explicit Holder(const std::string& name, const Options& reported)
      : options(reported), node(name, {.clock = reported.clock}) {
    TieredKeeperParts parts{.clock = &node.clock, .memory = node.build(kind(), options.heads)};
    block_directory = parts.block_directory.get();
    if (options.disk != nullptr)
      parts.below.push_back(
          DiskTier::open(*options.disk, {.directory = "/kv",
                                         .incarnation = 7,
                                         .block_directory = parts.block_directory.get(),
                                         .tier = 1})
              .value());
    parts.peers = {.agent = node.agent.get(),
                   .manager = node.manager.get(),
                   .name_space = options.name_space,
                   .first_head = options.first_head,
                   .lease = options.lease,
                   .timeout = options.timeout,
                   .staged_blocks = options.staged_blocks,
                   .collects = options.collects,
                   .hands_over = options.hands_over};
    parts.background = options.background;
    parts.cache.quota_percent = options.quota_percent;
    parts.cache.policy = options.policy;
    keeper = TieredKeeper::make(std::move(parts)).value();
    (void)keeper->take_news();
  }
  ~Holder() { keeper.reset(); }

  blockcopy::testing::CacheKind kind() const {
    return {.name = "kept",
            .kind = options.in_pieces ? layout::LayoutKind::layer_separate_block_second
                                      : layout::LayoutKind::fully_contiguous};
  }
  void visit(SlotId slot, BlockHash hash,
             const std::function<void(std::uint32_t, std::byte*)>& see) {
    blockcopy::testing::for_each_element(
        keeper->memory(), slot, options.first_head, [&](const auto& at, std::byte* place) {
          std::uint64_t named[6];
          std::ranges::copy(at, named);
          named[0] = 0;
          see(blockcopy::testing::number_of(static_cast<std::uint32_t>(hash), named), place);
        });
  }
  void put(BlockHash hash, TenantId tenant = 0, std::optional<BlockHash> parent = {}) {
    auto slot = keeper->room(1, tenant).value();
    visit(slot.front().slot(), hash, [](std::uint32_t number, std::byte* place) {
      std::memcpy(place, &number, sizeof number);
    });
    const KeptBlock as{.hash = hash, .tenant = tenant, .parent = parent};
    ASSERT_TRUE(keeper->keep(std::move(slot.front()), as).ok());
    (void)keeper->take_news();
  }
  /// Ok only with exactly the block's numbers; what is wrong fails the test.
  Status get(BlockHash hash) {
    TOWPATH_TRY(const BlockRef block, std::move(keeper->hold({&hash, 1}, others).front()));
    visit(block.slot(), hash, [&](std::uint32_t number, std::byte* place) {
      EXPECT_EQ(std::memcmp(place, &number, sizeof number), 0) << "a wrong block: " << hash;
    });
    return {};
  }
  /// Together; nobody looks at them.
  void bring(std::span<const BlockHash> hashes) { (void)keeper->hold(hashes, others); }
  Bytes catalogue() { return keeper->peers()->catalogue().value(); }
  Status learn(ConstByteSpan catalogue) { return keeper->peers()->learn(catalogue); }
  PeerFigures granting() const { return keeper->granting(); }
  void spoil_memory() {
    for (std::uint64_t slot = 0; slot < blockcopy::testing::kBlocks; ++slot)
      keeper->memory().bytes({.block = slot}).value().front() ^= std::byte{1};
  }

  Options options;
  blockcopy::testing::TransferNode node;
  std::function<void()> others;               // driven while this one waits
  BlockDirectory* block_directory = nullptr;  // the keeper's
  std::unique_ptr<TieredKeeper> keeper;
};

/// Each learns of the other; `near` drives `far` while it waits.
inline void meet(Holder& near, Holder& far) {
  ASSERT_TRUE(far.learn(near.catalogue()).ok());
  const Status learned = near.learn(far.catalogue());
  ASSERT_TRUE(learned.ok()) << learned.to_string();
  near.others = [before = near.others, &far] {
    if (before) before();
    (void)far.keeper->progress();
  };
}

/// A tier without a cache, which asks `far` for blocks and hears what it says.
struct Lessee {
  struct Options {
    std::uint64_t staged_blocks = 4;
    const Clock* clock = nullptr;  ///< null: the node's
  };
  explicit Lessee(Holder& of) : Lessee(of, Options()) {}
  Lessee(Holder& of, const Options& options)
      : far(of),
        node("near", {.clock = options.clock}),
        memory(node.build({"kept"})),
        handle(node.add(memory)) {
    tier = PeerTier::make({.agent = node.agent.get(),
                           .manager = node.manager.get(),
                           .block_directory = &block_directory,
                           .tier = 1,
                           .share = {"model", memory.config()},
                           .timeout = std::chrono::seconds(20),
                           .staged_blocks = options.staged_blocks})
               .value();
    tier->land_in(handle);
    const Catalogue own{.name_space = "model",
                        .package = node.manager->export_package().value(),
                        .layout = handle.id,
                        .hashes = {}};
    EXPECT_TRUE(far.learn(encode(own).value()).ok());
    EXPECT_TRUE(tier->learn(far.catalogue()).ok());
  }
  ~Lessee() { tier.reset(); }

  /// How many answers came.
  std::size_t hear() {
    const auto notes = node.agent->take_notifications();
    for (const agent::Notification& note : notes)
      tier->hear(note.from.name, decode_peer_message(note.message).value());
    return notes.size();
  }
  /// True: an answer came.
  bool progress() {
    (void)tier->progress();
    (void)far.keeper->progress();
    return hear() > 0;
  }

  Holder& far;
  blockcopy::testing::TransferNode node;
  BlockDirectory block_directory;
  layout::PhysicalLayout memory;
  blockcopy::LayoutHandle handle;
  std::unique_ptr<PeerTier> tier;
};

}  // namespace towpath::kv::testing
