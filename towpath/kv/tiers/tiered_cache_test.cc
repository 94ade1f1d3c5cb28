#include <atomic>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/kv/tiers/cache_fixture.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using testing::CacheFixture;
using testing::MemoryTier;

class TieredCacheTest : public CacheFixture {};

std::vector<BlockHash> names(BlockHash from, BlockHash to) {
  std::vector<BlockHash> all;
  for (BlockHash hash = from; hash <= to; ++hash) all.push_back(hash);
  return all;
}

TEST_F(TieredCacheTest, what_is_evicted_comes_back_as_it_was) {
  for (const bool in_pieces : {false, true}) {
    open({}, {.slots = 8, .in_pieces = in_pieces});
    make_all(1, 40);  // more than there are slots: most are gone from the host before their turn
    EXPECT_TRUE(cache_->flush().ok());
    make_all(41, 48);
    EXPECT_TRUE(cache_->flush().ok());
    evict_all();
    for (BlockHash hash = 41; hash <= 48; ++hash) EXPECT_TRUE(promote(hash).ok()) << hash;
    EXPECT_EQ(promote(1).code(), Code::not_found);
    const auto figures = cache_->figures();
    EXPECT_EQ(figures.gone, 32U);
    EXPECT_EQ(figures.not_found, 1U);
    EXPECT_EQ(figures.below[0].demoted, 16U);
    EXPECT_EQ(figures.below[0].promoted, 8U);
    EXPECT_EQ(figures.below[0].promoted_bytes, 8 * kBlockBytes);
    EXPECT_EQ(figures.below[0].get_ns.count, 8U);
    empty_the_disk();
  }
}

TEST_F(TieredCacheTest, the_next_life_finds_what_was_acknowledged) {
  open();
  make_all(1, 5);
  ASSERT_TRUE(cache_->flush().ok());
  make_all(6, 8);
  open();  // the process ended
  const auto prefix = cache_->match(names(1, 8));
  EXPECT_TRUE(prefix.here.empty());
  EXPECT_EQ(prefix.below, 5U);
  for (BlockHash hash = 1; hash <= 5; ++hash) EXPECT_TRUE(promote(hash).ok()) << hash;
  EXPECT_EQ(cache_->match(names(1, 8)).here.size(), 5U);
}

TEST_F(TieredCacheTest, what_is_wanted_again_and_again_stays_on_a_full_disk) {
  open({}, {.capacity_bytes = 400'000});
  (void)make(1);
  for (BlockHash hash = 2; hash < 200; hash += 4) {
    make_all(hash, hash + 3);
    ASSERT_TRUE(cache_->flush().ok());
    evict_all();
    ASSERT_TRUE(promote(1).ok()) << "after block " << hash + 3;
  }
  EXPECT_FALSE(is_on_disk(2));
  EXPECT_LT(disk_->store().figures().kept, 15U) << "not each time that it was wanted";
}

TEST_F(TieredCacheTest, where_blocks_are_found_is_counted_by_tier) {
  meter_ = {.metrics = &metrics_, .agent = "node"};
  open();
  make_all(1, 6);
  ASSERT_TRUE(cache_->flush().ok());
  for (const BlockHash hash : {3, 4, 6}) (void)cache_->pool().drop(hash);
  EXPECT_EQ(cache_->match(names(1, 10)).below, 4U) << "5 lies above, behind two that do not";
  const auto found = [&](const char* where) {
    return metrics_.counter("towpath_cache_blocks_total", {{"agent", "node"}, {"found_in", where}})
        .value();
  };
  EXPECT_EQ(found("host"), 3U);
  EXPECT_EQ(found("disk"), 3U);
  EXPECT_EQ(found("miss"), 4U);
}

TEST_F(TieredCacheTest, who_waits_is_reported_until_the_cache_ends) {
  meter_ = {.metrics = &metrics_, .agent = "node"};
  open({.batch_blocks = 2, .batch_at_least = 2});
  const auto waiting = [&](const char* direction) {
    return metrics_
        .gauge("towpath_cache_waiting_blocks", {{"agent", "node"}, {"direction", direction}})
        .value();
  };
  make_all(1, 8);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(waiting("demotion"), 0);
  evict_all();
  std::vector<CachedBlock> wanted;
  for (BlockHash hash = 1; hash <= 5; ++hash) wanted.push_back({hash, {}});
  {
    const auto promotion = cache_->promote(wanted);
    ASSERT_TRUE(promotion.ok());
    make_all(11, 13);
    EXPECT_TRUE(cache_->progress());
    EXPECT_EQ(waiting("promotion"),
              static_cast<std::int64_t>(cache_->figures().waiting_promotions));
    EXPECT_EQ(waiting("demotion"), static_cast<std::int64_t>(cache_->figures().waiting_demotions));
    EXPECT_GT(waiting("promotion"), 0);
    EXPECT_GT(waiting("demotion"), 0);
  }
  cache_.reset();
  EXPECT_EQ(waiting("promotion") + waiting("demotion"), 0);
}

TEST_F(TieredCacheTest, a_small_batch_waits_for_company_but_not_for_ever) {
  open({.batch_at_least = 4, .linger = std::chrono::milliseconds(10)});
  make_all(1, 3);
  EXPECT_FALSE(cache_->progress());
  clock_.advance(std::chrono::milliseconds(10));
  EXPECT_TRUE(cache_->progress());
  EXPECT_TRUE(is_on_disk(1) && is_on_disk(3));
  make_all(4, 7);
  EXPECT_TRUE(cache_->progress());
  EXPECT_TRUE(is_on_disk(7));
  EXPECT_FALSE(cache_->progress());
}

TEST_F(TieredCacheTest, a_batch_of_small_blocks_ends_by_bytes) {
  open({.batch_blocks = 2, .batch_at_least = 2});
  make_all(1, 8);
  EXPECT_TRUE(cache_->progress());
  EXPECT_TRUE(is_on_disk(8));
}

TEST_F(TieredCacheTest, demotion_is_no_use_of_a_block) {
  open();
  make_all(1, 8);
  (void)cache_->match(names(1, 1));  // 2 is now the oldest
  ASSERT_TRUE(cache_->flush().ok());
  (void)make(9);
  EXPECT_FALSE(cache_->pool().find(2));
  EXPECT_TRUE(cache_->pool().find(1) && cache_->pool().find(3));
}

TEST_F(TieredCacheTest, with_second_sight_only_what_is_asked_for_again_goes_down) {
  open({.admission = {.min_accesses = 2}});
  make_all(1, 4);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(cache_->figures().not_admitted, 4U);
  (void)cache_->match(names(1, 2));
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_TRUE(is_on_disk(1) && is_on_disk(2));
  EXPECT_FALSE(is_on_disk(3));
}

TEST_F(TieredCacheTest, a_block_that_is_matched_again_has_the_priority_it_was_registered_with) {
  open({.admission = {.min_accesses = 2, .min_priority = kUsualPriority + 1}});
  make_all(1, 1, {.priority = kUsualPriority + 1});
  make_all(2, 2);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_FALSE(is_on_disk(1)) << "seen once";
  (void)cache_->match(names(1, 2));
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_TRUE(is_on_disk(1));
  EXPECT_FALSE(is_on_disk(2));
  open({.admission = {.min_priority = kUsualPriority}});
  make_all(3, 3, {.priority = kUsualPriority - 1});
  (void)cache_->match(names(3, 3));
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_FALSE(is_on_disk(3)) << "it is no more urgent than before";
}

TEST_F(TieredCacheTest, urgent_blocks_go_down_first_and_a_bound_holds) {
  open({.admission = {.min_priority = 10},
        .most_waiting_demotions = 3,
        .batch_blocks = 2,
        .batch_bytes = 0,
        .batch_at_least = 1});
  (void)make(1, {.priority = 5});
  make_all(2, 5);  // one too many
  (void)make(6, {.priority = 90});
  const auto figures = cache_->figures();
  EXPECT_EQ(figures.not_admitted, 1U);
  EXPECT_EQ(figures.given_up, 2U);
  EXPECT_EQ(figures.waiting_demotions, 3U);
  EXPECT_TRUE(cache_->progress());
  EXPECT_TRUE(is_on_disk(6) && is_on_disk(2));
  EXPECT_FALSE(is_on_disk(3));
}

TEST_F(TieredCacheTest, what_a_request_had_waiting_is_cancelled_with_it) {
  open();
  make_all(1, 3, {.owner = 7});
  make_all(4, 5, {.owner = 8});
  EXPECT_EQ(cache_->cancel_demotions(7), 3U);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_FALSE(is_on_disk(1));
  EXPECT_TRUE(is_on_disk(4));
  EXPECT_EQ(cache_->figures().cancelled, 3U);
}

TEST_F(TieredCacheTest, promotions_are_bounded_cancelled_and_fail_by_block) {
  open({.most_waiting_promotions = 10});
  make_all(1, 8);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  const std::vector<CachedBlock> wanted{{1, {}}, {99, {}}, {2, 1}};
  auto promotion = *cache_->promote(wanted);
  EXPECT_EQ(cache_->promote(std::vector<CachedBlock>(8, {3, {}})).code(), Code::exhausted);
  ASSERT_TRUE(cache_->progress());
  ASSERT_TRUE(promotion.ended());
  const auto results = promotion.take();
  expect_right(results[0].block, 1);
  EXPECT_EQ(results[1].status.code(), Code::not_found);
  expect_right(results[2].block, 2);
  auto unwanted = *cache_->promote(wanted);
  unwanted.cancel();
  (void)cache_->progress();
  EXPECT_EQ(unwanted.take()[0].status.code(), Code::cancelled);
}

TEST_F(TieredCacheTest, with_all_slots_held_a_promotion_fails_and_the_block_stays_where_it_is) {
  open({}, {.slots = 2});
  make_all(1, 2);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  {
    const BlockRef one = make(3), two = make(4);
    EXPECT_EQ(promote(1).code(), Code::exhausted);
  }
  EXPECT_TRUE(promote(1).ok());
}

TEST_F(TieredCacheTest, dropped_blocks_are_in_no_tier) {
  open();
  make_all(1, 2);
  ASSERT_TRUE(cache_->flush().ok());
  cache_->drop(1);
  EXPECT_EQ(block_directory_->tiers_of(1), 0U);
  EXPECT_EQ(promote(1).code(), Code::not_found);
  EXPECT_TRUE(promote(2).ok());
}

TEST_F(TieredCacheTest, what_comes_back_stands_on_what_its_user_or_else_its_tier_names) {
  auto tier = std::make_unique<MemoryTier>(2);
  MemoryTier& other = *tier;
  others_.push_back(std::move(tier));
  open();
  other.block_directory = block_directory_.get();
  make_all(1, 1);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  other.blocks[9] = {digest_of(content(9), 5), content(9), BlockHash{8}};
  block_directory_->add(9, 2);
  for (const auto& [wanted, parent] : {std::pair(CachedBlock{1, 77}, BlockHash{77}),
                                       std::pair(CachedBlock{9, {}}, BlockHash{8})}) {
    auto promotion = cache_->promote(std::span(&wanted, 1)).value();
    while (!promotion.ended()) (void)cache_->progress();
    const std::vector<Promoted> came = promotion.take();
    ASSERT_TRUE(came.at(0).status.ok()) << came[0].status.to_string();
    EXPECT_EQ(came[0].block.identity().block.parent, parent);
  }
}

TEST_F(TieredCacheTest, a_block_that_is_wrong_in_one_tier_comes_from_the_next) {
  others_.push_back(std::make_unique<MemoryTier>(2));
  MemoryTier& other = static_cast<MemoryTier&>(*others_.front());
  open();
  other.block_directory = block_directory_.get();
  make_all(1, 3);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_EQ(block_directory_->tiers_of(1), 0b111U);
  evict_all();
  files_.inject({.on = sys::FileOp::read, .effect = sys::FileEffect::flip_bit, .bit = 33});
  EXPECT_TRUE(promote(1).ok());
  EXPECT_EQ(block_directory_->tiers_of(1), 0b101U) << "the disk's is quarantined";
  EXPECT_EQ(cache_->figures().quarantined.at("disk, coming up"), 1U);
  EXPECT_EQ(cache_->figures().below[1].promoted, 1U);
}

TEST_F(TieredCacheTest, demotion_gives_way_to_promotion_between_two_blocks) {
  others_.push_back(std::make_unique<MemoryTier>(2));
  MemoryTier& other = static_cast<MemoryTier&>(*others_.front());
  open();
  other.block_directory = block_directory_.get();
  make_all(1, 8);
  std::optional<Promotion> promotion;
  other.on_begin = [&](const TierTask&) {
    if (!promotion) promotion = *cache_->promote(std::vector<CachedBlock>{{1, {}}});
  };
  EXPECT_TRUE(cache_->progress());
  EXPECT_EQ(other.blocks.size(), 1U);
  EXPECT_FALSE(promotion->ended());
  EXPECT_TRUE(cache_->progress());
  EXPECT_TRUE(promotion->ended());
}

TEST_F(TieredCacheTest, what_makes_no_sense_is_refused) {
  block_directory_ = std::make_unique<BlockDirectory>();
  EXPECT_EQ(DiskTier::open(files_, {.directory = "/kv"}).code(), Code::invalid_argument);
  std::vector<std::unique_ptr<BlockTier>> twice;
  twice.push_back(std::make_unique<MemoryTier>(2));
  twice.push_back(std::make_unique<MemoryTier>(2));
  EXPECT_EQ(
      TieredCache::make({clock_, *block_directory_, make_layout({}), std::move(twice)}, {}).code(),
      Code::invalid_argument);
  EXPECT_EQ(TieredCache::make({clock_, *block_directory_, make_layout({}), {}}, {.batch_blocks = 0})
                .code(),
            Code::invalid_argument);
}

/// A page of memory that holds up whoever reads it, until it is opened. One at a time.
class ClosedPage {
 public:
  explicit ClosedPage(std::byte* page) {
    held_page = page;
    reached = opened = false;
    struct sigaction hold {};
    hold.sa_sigaction = &hold_up;
    hold.sa_flags = SA_SIGINFO;
    EXPECT_EQ(sigaction(SIGSEGV, &hold, &before_), 0);
    EXPECT_EQ(mprotect(page, kPage, PROT_NONE), 0);
  }
  ~ClosedPage() {
    open();
    EXPECT_EQ(mprotect(held_page, kPage, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(sigaction(SIGSEGV, &before_, nullptr), 0);
  }
  static bool is_reached() { return reached; }
  static void open() { opened = true; }

  static constexpr std::size_t kPage = 4096;

 private:
  static void hold_up(int /*signal*/, siginfo_t* what, void* /*context*/) {
    if (what->si_addr < held_page || what->si_addr >= held_page + kPage)
      _exit(1);  // a fault of ours
    reached = true;
    while (!opened) sched_yield();
    mprotect(held_page, kPage, PROT_READ | PROT_WRITE);
  }

  static inline std::byte* held_page = nullptr;
  static inline std::atomic<bool> reached{false}, opened{false};
  struct sigaction before_ {};
};

// Nobody holds a block but demotion, for the time of a copy: so slots can always be had. Here the
// copy stands still until somebody has long waited for all slots.
TEST_F(TieredCacheTest, allocation_is_never_refused_for_demotion_s_sake) {
  open({.batch_at_least = 1}, {.slots = 2, .inner_dim = 256, .segment_bytes = kMiB});
  auto slots = *cache_->allocate(1);
  ByteSpan first = *cache_->layout().bytes({slots.front().slot(), 0, 0});
  ASSERT_GE(first.size(), ClosedPage::kPage);
  (void)*cache_->register_block(
      CompleteBlock(std::move(slots.front()), {{1, {}}, digest_of(Bytes(8 * first.size()), 5)}));
  ClosedPage page(first.data());
  std::jthread demoter([&] { EXPECT_TRUE(cache_->progress()); });
  ASSERT_TRUE(run::eventually([] { return ClosedPage::is_reached(); }));
  EXPECT_EQ(cache_->pool().allocate(2).code(), Code::exhausted) << "the pool does not wait";
  std::atomic<bool> is_refused{false};
  std::jthread user([&] { is_refused = !cache_->allocate(2).ok(); });
  for (int i = 0; i < 2000; ++i) sched_yield();  // it has asked, or is asking soon: both are well
  ClosedPage::open();
  user.join();
  demoter.join();
  EXPECT_FALSE(is_refused);
  EXPECT_TRUE(is_on_disk(1));
}

}  // namespace
}  // namespace towpath::kv
