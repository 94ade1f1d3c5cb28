// A tier that another thread drives than the one that asks it.
#include <atomic>
#include <deque>

#include <gtest/gtest.h>

#include <towpath/kv/tiers/memory_tier_fixture.h>
#include <towpath/kv/tiers/relayed_tier.h>
#include <towpath/run/eventually.h>
#include <towpath/run/worker.h>

namespace towpath::kv {
namespace {

using testing::MemoryTier;

class RelayedTierTest : public ::testing::Test {
 protected:
  RelayedTierTest() {
    auto tier = std::make_unique<MemoryTier>(1, 64);
    tier->block_directory = &block_directory_;
    tier_ = tier.get();
    relayed_ = RelayedTier::make(std::move(tier), [this] { ++wakes_; }).value();
  }
  static Bytes bytes_of(BlockHash hash) { return Bytes(100, static_cast<std::byte>(hash)); }
  TierTask& ask(TierTask::Kind kind, BlockHash hash) {
    Bytes& bytes = bytes_.emplace_back(kind == TierTask::Kind::put ? bytes_of(hash) : Bytes(100));
    TierTask& task = tasks_.emplace_back(TierTask{.kind = kind, .hash = hash, .bytes = bytes});
    if (kind == TierTask::Kind::put) task.digest = digest_of(bytes, hash);
    relayed_->begin(task);
    return task;
  }

  BlockDirectory block_directory_;
  MemoryTier* tier_ = nullptr;  // the relayed one's
  std::atomic<int> wakes_{0};
  std::deque<Bytes> bytes_;
  std::deque<TierTask> tasks_;
  std::unique_ptr<RelayedTier> relayed_;
};

TEST_F(RelayedTierTest, a_task_begins_when_it_is_driven_and_ends_when_the_cache_looks) {
  TierTask& put = ask(TierTask::Kind::put, 7);
  EXPECT_EQ(wakes_, 1) << "the driver hears of it";
  EXPECT_FALSE(relayed_->progress());
  EXPECT_TRUE(tier_->blocks.empty());
  EXPECT_TRUE(relayed_->has_work());
  EXPECT_TRUE(relayed_->drive());
  EXPECT_TRUE(tier_->blocks.contains(7));
  EXPECT_FALSE(put.has_ended) << "only the cache's thread writes to it";
  EXPECT_FALSE(relayed_->has_work());
  EXPECT_TRUE(relayed_->progress());
  EXPECT_TRUE(put.has_ended && put.status.ok());
  tier_->blocks[7].parent = 6;
  TierTask& get = ask(TierTask::Kind::get, 7);
  (void)relayed_->drive();
  (void)relayed_->progress();
  EXPECT_TRUE(get.has_ended && get.status.ok());
  EXPECT_EQ(get.digest, put.digest);
  EXPECT_EQ(get.parent, BlockHash{6});
  EXPECT_EQ(bytes_.back(), bytes_of(7));
  EXPECT_FALSE(relayed_->drive());
}

TEST_F(RelayedTierTest, what_fails_fails_and_what_is_cancelled_ends_once) {
  TierTask& missing = ask(TierTask::Kind::get, 9);
  tier_->is_slow = true;
  (void)relayed_->drive();
  relayed_->cancel(missing);
  (void)relayed_->progress();
  EXPECT_FALSE(missing.has_ended);
  (void)relayed_->drive();
  relayed_->cancel(missing);  // too late: it has ended
  (void)relayed_->drive();
  (void)relayed_->progress();
  EXPECT_EQ(missing.status.code(), Code::cancelled);
  tier_->is_slow = false;
  TierTask& gone = ask(TierTask::Kind::get, 9);
  (void)relayed_->drive();
  (void)relayed_->progress();
  EXPECT_EQ(gone.status.code(), Code::not_found);
}

TEST_F(RelayedTierTest, a_block_is_removed_when_it_is_driven) {
  (void)ask(TierTask::Kind::put, 7);
  (void)relayed_->drive();
  EXPECT_TRUE(relayed_->remove(7).ok());
  (void)relayed_->drive();
  EXPECT_TRUE(tier_->blocks.empty());
  EXPECT_EQ(block_directory_.tiers_of(7), 0U);
  (void)relayed_->progress();
}

TEST_F(RelayedTierTest, without_a_driver_the_cache_s_thread_is_both) {
  const TierTask& put = ask(TierTask::Kind::put, 7);
  relayed_->drive_here();
  while (!put.has_ended) (void)relayed_->progress();
  EXPECT_TRUE(put.status.ok());
}

TEST_F(RelayedTierTest, two_threads_move_many_blocks) {
  constexpr BlockHash kMany = 512, kAtOnce = 32;
  auto driver = run::Worker::start("driver", [this](const run::StopToken& stop) {
                  while (!stop.stop_requested()) (void)relayed_->drive();
                }).value();
  for (const auto kind : {TierTask::Kind::put, TierTask::Kind::get}) {
    for (BlockHash from = 1; from <= kMany; from += kAtOnce) {
      tasks_.clear();
      bytes_.clear();
      for (BlockHash hash = from; hash < from + kAtOnce; ++hash) (void)ask(kind, hash);
      while (!std::ranges::all_of(tasks_, &TierTask::has_ended))
        if (!relayed_->progress()) relayed_->wait_for_work(std::chrono::seconds(1));
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        ASSERT_TRUE(tasks_[i].status.ok()) << tasks_[i].status.to_string();
        ASSERT_EQ(bytes_[i], bytes_of(from + i));
      }
    }
  }
}

}  // namespace
}  // namespace towpath::kv
