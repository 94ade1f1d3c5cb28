// A TieredCache whose pool lies in a device's memory, over the host's and files. The device is the
// host driver's, which is no GPU and keeps a GPU's order of work; a test holds, fails or spoils its
// copies.
#include <optional>

#include <gmock/gmock.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/watched_device.h>
#include <towpath/kv/tiers/cache_fixture.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using device::testing::DeviceHands;
using device::testing::WatchedDevice;
using run::eventually;
using testing::CacheFixture;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using testing::MemoryTier;

constexpr std::uint16_t kDevice = 0b001, kHost = 0b010, kDisk = 0b100;

class DevicePoolTest : public CacheFixture {
 protected:
  DevicePoolTest() {
    device_ =
        std::make_shared<WatchedDevice>(device::HostDriver(device_clock_).open(0).value(), hands_);
  }
  ~DevicePoolTest() override {
    hands_->open();
    cache_.reset();
  }

  std::uint16_t tiers_of(BlockHash hash) const { return block_directory_->tiers_of(hash); }
  /// Until nothing is left to do; what is held stays so.
  void go_on() {
    while (cache_->progress()) {
    }
  }
  bool reaches(const std::function<bool()>& state) {
    return eventually([&] {
      (void)cache_->progress();
      return state();
    });
  }
  Promotion want(BlockHash from, BlockHash to) {
    std::vector<CachedBlock> blocks;
    for (BlockHash hash = from; hash <= to; ++hash) blocks.push_back({hash, hash - 1});
    return cache_->promote(blocks).value();
  }
  /// Blocks 1 to `last`, in the host's tier and on disk, and in the pool no more.
  void open_with_blocks_below(BlockHash last, const TieredCacheOptions& options = {}) {
    open(options);
    make_all(1, last);
    ASSERT_TRUE(cache_->flush().ok());
    evict_all();
  }

  ManualClock device_clock_;
  const std::shared_ptr<DeviceHands> hands_ = std::make_shared<DeviceHands>();
};

TEST_F(DevicePoolTest, what_is_evicted_comes_back_as_it_was) {
  for (const bool in_pieces : {false, true}) {
    open({}, {.slots = 8, .in_pieces = in_pieces});
    make_all(1, 8);
    ASSERT_TRUE(cache_->flush().ok());
    for (BlockHash hash = 1; hash <= 8; ++hash) EXPECT_EQ(tiers_of(hash), kDevice | kHost | kDisk);
    make_all(9, 16);  // in the slots of the first
    ASSERT_TRUE(cache_->flush().ok());
    for (BlockHash hash = 1; hash <= 8; ++hash) {
      EXPECT_EQ(tiers_of(hash), kHost | kDisk);
      EXPECT_TRUE(promote(hash).ok()) << hash;
    }
    const auto figures = cache_->figures();
    EXPECT_EQ(figures.below[0].promoted, 8U) << "from the host's memory, not from the disk";
    EXPECT_EQ(figures.below[0].demoted, 16U);
    EXPECT_EQ(figures.copy_out_ns.count, 16U);
    EXPECT_EQ(figures.copy_in_ns.count, 8U);
    empty_the_disk();
  }
}

TEST_F(DevicePoolTest, the_host_remembers_what_a_block_stands_on) {
  open_with_blocks_below(2);
  const CachedBlock wanted{2, {}};
  Promotion promotion = cache_->promote(std::span(&wanted, 1)).value();
  ASSERT_TRUE(reaches([&] { return promotion.ended(); }));
  const std::vector<Promoted> came = promotion.take();
  ASSERT_TRUE(came.at(0).status.ok()) << came[0].status.to_string();
  EXPECT_EQ(came[0].block.identity().block.parent, BlockHash{1});
}

TEST_F(DevicePoolTest, what_the_host_has_no_room_for_comes_from_the_disk) {
  open({}, {.slots = 8, .host_slots = 2});
  make_all(1, 8);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  EXPECT_EQ(tiers_of(1), kDisk);
  EXPECT_EQ(tiers_of(8), kHost | kDisk);
  for (BlockHash hash = 1; hash <= 8; ++hash) EXPECT_TRUE(promote(hash).ok()) << hash;
  const auto figures = cache_->figures();
  EXPECT_EQ(figures.below[0].promoted, 2U);
  EXPECT_EQ(figures.below[1].promoted, 6U);
  EXPECT_EQ(figures.below[0].room->evicted, 6U);
}

TEST_F(DevicePoolTest, blocks_go_down_in_one_batch_of_whole_blocks) {
  open();
  make_all(1, 8);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(hands_->batches, 1U);
  EXPECT_EQ(hands_->copies, 1U) << "blocks that adjoin on both sides are one copy";
}

TEST_F(DevicePoolTest, no_more_are_under_way_than_there_is_memory_for) {
  open({.copies_at_once = 3});
  make_all(1, 8);
  hands_->is_held = true;
  clock_.advance(std::chrono::seconds(1));
  go_on();
  EXPECT_EQ(hands_->batches, 1U);
  EXPECT_EQ(cache_->waiting_demotions(), 5U);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  Promotion promotion = want(1, 8);
  ASSERT_TRUE(reaches([&] { return promotion.ended(); }));
  for (const Promoted& one : promotion.take()) expect_right(one.block, one.block.hash());
}

TEST_F(DevicePoolTest, no_tier_has_a_block_before_its_copy_has_ended) {
  open({.batch_at_least = 1});
  (void)make(1);
  hands_->is_held = true;
  go_on();
  EXPECT_EQ(hands_->batches, 1U) << "it is under way";
  EXPECT_EQ(tiers_of(1), kDevice);
  hands_->open();
  EXPECT_TRUE(reaches([&] { return tiers_of(1) == (kDevice | kHost | kDisk); }));
}

TEST_F(DevicePoolTest, nobody_finds_a_block_before_it_has_arrived_and_was_read_back) {
  open_with_blocks_below(2);
  hands_->is_held = true;
  Promotion promotion = want(1, 2);
  go_on();
  EXPECT_EQ(promotion.settled(), 0U);
  EXPECT_EQ(tiers_of(1), kHost | kDisk);
  EXPECT_FALSE(cache_->find(1));
  hands_->open();
  ASSERT_TRUE(reaches([&] { return promotion.ended(); }));
  for (const Promoted& one : promotion.take()) expect_right(one.block, one.block.hash());
}

TEST_F(DevicePoolTest, an_allocation_has_the_slot_of_a_block_that_is_being_copied) {
  open({.batch_at_least = 1});
  make_all(1, 8);
  hands_->is_held = true;
  go_on();
  auto slots = cache_->allocate(8);  // of a copy that moves nothing: who waited would wait for ever
  ASSERT_TRUE(slots.ok()) << slots.status().to_string();
  for (const PartialBlock& slot : *slots) write_slot(slot.slot(), Bytes(kBlockBytes, std::byte{7}));
  hands_->open();
  ASSERT_TRUE(cache_->flush().ok());
  for (BlockHash hash = 1; hash <= 8; ++hash) EXPECT_EQ(tiers_of(hash), 0U) << hash;
  EXPECT_EQ(cache_->figures().gone, 8U);
  EXPECT_TRUE(cache_->figures().quarantined.empty()) << "nobody did anything wrong";
}

TEST_F(DevicePoolTest, a_block_that_is_dropped_while_it_is_copied_is_in_no_tier) {
  open({.batch_at_least = 1});
  const BlockRef held = make(1);
  hands_->is_held = true;
  go_on();
  cache_->drop(1);
  hands_->open();
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(tiers_of(1), 0U);
}

TEST_F(DevicePoolTest, what_arrives_damaged_is_not_served_and_the_next_tier_is_asked) {
  open_with_blocks_below(1);
  hands_->spoil_arrivals = 1;
  EXPECT_TRUE(promote(1).ok());
  auto figures = cache_->figures();
  EXPECT_EQ(figures.quarantined.at("device, arrived"), 1U);
  EXPECT_EQ(figures.below[1].promoted, 1U) << "by the disk";
  evict_all();
  hands_->spoil_arrivals = 2;
  const Status came = promote(1);
  EXPECT_EQ(came.code(), Code::corrupt);
  EXPECT_THAT(came.to_string(), HasSubstr("device's memory"));
  EXPECT_EQ(tiers_of(1), kHost | kDisk) << "theirs is as it was";
  EXPECT_TRUE(promote(1).ok());
}

TEST_F(DevicePoolTest, bytes_that_were_overwritten_on_the_device_go_nowhere) {
  open();
  {
    const BlockRef block = make(1);
    Bytes wrong = content(1);
    wrong[100] ^= std::byte{1};
    write_slot(block.slot(), wrong);
  }
  (void)make(2);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(tiers_of(1), 0U);
  EXPECT_EQ(tiers_of(2), kDevice | kHost | kDisk);
  EXPECT_EQ(cache_->figures().quarantined.at("device, going down"), 1U);
}

// Blocks are copied aside together, and then only one of them asks it.
TEST_F(DevicePoolTest, a_tier_that_does_not_answer_holds_nothing_aside) {
  others_.push_back(std::make_unique<MemoryTier>(3, 4));
  auto* const silent = static_cast<MemoryTier*>(others_.front().get());
  silent->is_slow = true;
  silent->refuse = [](const TierTask&) { return error(Code::timed_out, "a test's"); };
  open({.batch_at_least = 1, .copies_at_once = 4});
  silent->block_directory = block_directory_.get();
  make_all(1, 1);
  ASSERT_TRUE(reaches([&] { return silent->under_way.size() == 1; }));
  silent->let_go(0);
  go_on();
  clock_.advance(std::chrono::seconds(2));
  make_all(2, 8);
  const auto are_on_disk = [&] {
    for (BlockHash hash = 2; hash <= 8; ++hash)
      if ((tiers_of(hash) & kDisk) == 0) return false;
    return true;
  };
  EXPECT_TRUE(reaches(are_on_disk));
  EXPECT_EQ(silent->under_way.size(), 1U);
  EXPECT_GT(cache_->figures().given_up, 0U) << "they had waited for a place in it";
}

TEST_F(DevicePoolTest, copies_that_fail_on_their_way_down_rest_and_the_device_serves_on) {
  open({.rest = std::chrono::seconds(1)});
  make_all(1, 2);
  for (std::atomic<int>* const failing : {&hands_->fail_batches, &hands_->fail_events}) {
    *failing = 1;
    EXPECT_EQ(cache_->flush().code(), Code::io_error);
    EXPECT_EQ(cache_->match(std::vector<BlockHash>{1, 2}).here.size(), 2U);
    EXPECT_EQ(tiers_of(1), kDevice);
    EXPECT_EQ(cache_->flush().code(), Code::io_error) << "it rests";
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(cache_->figures().failed_copies.at("out: io_error"), 4U);
  EXPECT_TRUE(cache_->flush().ok()) << "they were offered again when they were matched";
  EXPECT_EQ(tiers_of(2), kDevice | kHost | kDisk);
}

TEST_F(DevicePoolTest, copies_that_fail_on_their_way_up_are_no_blocks) {
  open_with_blocks_below(1);
  for (std::atomic<int>* const failing : {&hands_->fail_batches, &hands_->fail_events}) {
    *failing = 2;  // from the host, and from the disk
    EXPECT_EQ(promote(1).code(), Code::io_error);
    EXPECT_EQ(tiers_of(1), kHost | kDisk);
    EXPECT_EQ(cache_->pool().figures().free, 8U);
  }
  EXPECT_EQ(cache_->figures().failed_copies.at("in: io_error"), 4U);
  EXPECT_TRUE(promote(1).ok());
}

TEST_F(DevicePoolTest, a_promotion_may_be_cancelled_at_every_stage) {
  open_with_blocks_below(3, {.batch_blocks = 8, .batch_at_least = 1});
  {
    (void)want(1, 1);  // nobody wants it before it has begun
  }
  go_on();
  EXPECT_EQ(cache_->figures().cancelled, 1U);
  hands_->is_held = true;
  std::optional<Promotion> dropped = want(2, 3);
  go_on();
  dropped.reset();  // while it is copied: it ends when no byte can move
  go_on();
  EXPECT_EQ(cache_->pool().figures().free, 6U) << "its slots are nobody else's yet";
  hands_->open();
  ASSERT_TRUE(reaches([&] { return cache_->figures().waiting_promotions == 0; }));
  expect_right(cache_->find(2), 2);
}

TEST_F(DevicePoolTest, a_cache_that_ends_waits_for_copies_both_ways) {
  open_with_blocks_below(2, {.batch_at_least = 1});
  make_all(5, 6);
  hands_->is_held = true;
  (void)cache_->progress();
  const Promotion promotion = want(1, 2);
  go_on();
  EXPECT_EQ(promotion.settled(), 0U);
  const int waits = hands_->waits;
  cache_.reset();  // a copy would write to freed memory, which the sanitizer tells
  EXPECT_EQ(hands_->waits, waits + 1);
}

TEST_F(DevicePoolTest, places_are_counted_by_their_names) {
  meter_ = {.metrics = &metrics_, .agent = "node"};
  open_with_blocks_below(3);
  (void)make(1);
  (void)cache_->match(std::vector<BlockHash>{1, 2, 3, 4});
  const auto found = [&](const char* where) {
    return metrics_.counter("towpath_cache_blocks_total", {{"agent", "node"}, {"found_in", where}})
        .value();
  };
  EXPECT_EQ(found("device"), 1U);
  EXPECT_EQ(found("host"), 2U);
  EXPECT_EQ(found("miss"), 1U);
}

TEST_F(DevicePoolTest, what_makes_no_sense_is_refused) {
  const auto make_with = [&](memory::SharedDevice device, const TieredCacheOptions& options) {
    block_directory_ = std::make_unique<BlockDirectory>();
    return TieredCache::make(
               {clock_, *block_directory_, make_layout({}), {}, {}, std::move(device)}, options)
        .status();
  };
  EXPECT_THAT(make_with(nullptr, {}).to_string(), HasSubstr("give the device"));
  EXPECT_EQ(make_with(device_, {.copies_at_once = 0}).code(), Code::invalid_argument);
  EXPECT_EQ(make_with(device_, {.copies_at_once = SIZE_MAX}).code(), Code::invalid_argument);
  device::HostDriver others(device_clock_, {.devices = 2});
  EXPECT_THAT(make_with(others.open(1).value(), {}).to_string(), HasSubstr("device 0"));
  hands_->refuses_pinned = true;
  const Status refused = make_with(device_, {});
  EXPECT_EQ(refused.code(), Code::exhausted);
  EXPECT_THAT(refused.to_string(), HasSubstr("lower copies_at_once"));
}

}  // namespace
}  // namespace towpath::kv
