// A DiskTier whose device does things late, in any order, or not at all.
#include <cerrno>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/kv/disk/shuffled_device_fixture.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv {
namespace {

using sys::FileFault;
using sys::FileOp;
using testing::bytes_of_block;
using testing::digest_of_block;
using ::testing::HasSubstr;
using testing::ShuffledDevice;

class DiskTierTest : public ::testing::Test {
 protected:
  void open(std::uint64_t seed,
            BlockStoreOptions options = {.segment_bytes = testing::kSegmentBytes}) {
    tier_.reset();
    block_directory_ = std::make_unique<BlockDirectory>();
    options.directory = testing::kDirectory;
    options.incarnation = ++lives_;
    options.block_directory = block_directory_.get();
    options.tier = 1;
    auto device = std::make_unique<ShuffledDevice>(seed);
    device_ = device.get();
    auto made = DiskTier::open(*files_, options, std::move(device));
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    tier_ = *std::move(made);
  }
  /// On an empty disk.
  void begin_anew() {
    tier_.reset();
    files_ = std::make_unique<sys::MemoryFileSystem>();
  }
  void begin_put(BlockHash hash) {
    Bytes& bytes = bytes_[hash] = bytes_of_block(hash);
    TierTask& task = tasks_[hash] = {
        .kind = TierTask::Kind::put, .hash = hash, .digest = digest_of_block(hash), .bytes = bytes};
    tier_->begin(task);
  }
  /// One more step of what is under way. False: nothing was.
  bool step() { return tier_->progress(); }
  void put_all(BlockHash from, BlockHash to) {
    for (BlockHash hash = from; hash <= to; ++hash) begin_put(hash);
    while (step()) {
    }
  }
  Status get(BlockHash hash) {
    Bytes bytes(bytes_of_block(hash).size());
    TierTask task{.kind = TierTask::Kind::get, .hash = hash, .bytes = bytes};
    tier_->begin(task);
    while (!task.has_ended) (void)step();
    EXPECT_TRUE(!task.status.ok() || bytes == bytes_of_block(hash)) << "wrong: " << hash;
    return task.status;
  }
  void die_at_any_step(const BlockStoreOptions& options, BlockHash already_there);
  bool is_there(BlockHash hash) const { return block_directory_->tiers_of(hash) != 0; }

  std::unique_ptr<sys::MemoryFileSystem> files_ = std::make_unique<sys::MemoryFileSystem>();
  std::unique_ptr<BlockDirectory> block_directory_;
  std::uint64_t lives_ = 0;
  std::map<BlockHash, Bytes> bytes_;
  std::map<BlockHash, TierTask> tasks_;
  std::unique_ptr<DiskTier> tier_;  // ends before what its tasks point to
  ShuffledDevice* device_ = nullptr;
};

TEST_F(DiskTierTest, one_sync_serves_all_that_was_written_before_and_a_put_ends_with_it) {
  open(1);
  put_all(100, 100);  // so that a segment was begun
  const auto syncs = files_->calls(FileOp::sync);
  for (BlockHash hash = 1; hash <= 40; ++hash) begin_put(hash);
  EXPECT_EQ(device_->most_waiting, 32U) << "others leave their places to reads";
  while (step())
    for (const auto& [hash, task] : tasks_) ASSERT_EQ(task.has_ended, is_there(hash)) << hash;
  for (const auto& [hash, task] : tasks_) EXPECT_TRUE(task.has_ended && task.status.ok()) << hash;
  EXPECT_EQ(files_->calls(FileOp::sync) - syncs, 1U);
  files_->crash();
  open(1);
  for (BlockHash hash = 1; hash <= 40; ++hash) EXPECT_TRUE(get(hash).ok()) << hash;
}

TEST_F(DiskTierTest, reads_do_not_wait_for_writes) {
  open(2);
  put_all(1, 3);
  for (BlockHash hash = 10; hash <= 60; ++hash) begin_put(hash);
  Bytes bytes(bytes_of_block(2).size());
  TierTask task{.kind = TierTask::Kind::get, .hash = 2, .bytes = bytes};
  tier_->begin(task);
  EXPECT_EQ(device_->most_waiting, 32U + 1U) << "it is under way beside all of them";
  while (!task.has_ended) (void)step();
  EXPECT_TRUE(task.status.ok());
  EXPECT_EQ(bytes, bytes_of_block(2));
  while (step()) {
  }
}

TEST_F(DiskTierTest, a_large_block_is_begun_in_a_call_of_its_own_and_small_ones_together) {
  open(2, {.segment_bytes = 10'000'000});
  put_all(1, 2);
  Bytes large(200'000, std::byte{3});
  TierTask put{
      .kind = TierTask::Kind::put, .hash = 3, .digest = digest_of(large, 3), .bytes = large};
  tier_->begin(put);
  while (step()) {
  }
  ASSERT_TRUE(put.has_ended && put.status.ok());
  Bytes bytes(bytes_of_block(1).size()), back(large.size());
  TierTask small{.kind = TierTask::Kind::get, .hash = 1, .bytes = bytes};
  TierTask get{.kind = TierTask::Kind::get, .hash = 3, .bytes = back};
  tier_->begin(small);
  EXPECT_FALSE(small.has_ended);
  while (step()) {
  }
  tier_->begin(get);
  EXPECT_TRUE(get.has_ended && get.status.ok()) << "this device had it at once";
  EXPECT_EQ(back, large);
}

TEST_F(DiskTierTest, a_failed_sync_fails_its_puts_and_those_written_since) {
  open(3);
  put_all(1, 2);
  files_->inject({.on = FileOp::sync});
  put_all(3, 6);
  for (BlockHash hash = 3; hash <= 6; ++hash) {
    EXPECT_EQ(tasks_[hash].status.code(), Code::io_error) << hash;
    EXPECT_FALSE(is_there(hash)) << hash;
  }
  put_all(3, 4);
  EXPECT_TRUE(is_there(1) && is_there(3));
  files_->crash();
  open(3);
  for (const BlockHash hash : {1U, 2U, 3U, 4U}) EXPECT_TRUE(get(hash).ok()) << hash;
}

TEST_F(DiskTierTest, a_put_of_a_block_that_another_put_has_written_ends_with_its_sync) {
  enum class State { begun, written, being_synced };
  Bytes bytes = bytes_of_block(7);
  for (const bool fails : {false, true}) {
    for (const State state : {State::begun, State::written, State::being_synced}) {
      begin_anew();
      open(3);
      put_all(1, 1);
      if (fails) files_->inject({.on = FileOp::sync});
      begin_put(7);
      if (state == State::written) {
        device_->progress();
        begin_put(8);  // by which the tier sees what has ended
      }
      device_->keeps_syncs = state == State::being_synced;
      if (device_->keeps_syncs) (void)step();
      TierTask again{
          .kind = TierTask::Kind::put, .hash = 7, .digest = digest_of_block(7), .bytes = bytes};
      tier_->begin(again);
      EXPECT_FALSE(again.has_ended) << static_cast<int>(state);
      device_->keeps_syncs = false;
      while (step()) {
      }
      ASSERT_TRUE(again.has_ended && tasks_[7].has_ended) << static_cast<int>(state);
      EXPECT_EQ(tasks_[7].status.ok(), !fails) << tasks_[7].status.to_string();
      EXPECT_EQ(again.status.ok(), !fails) << again.status.to_string();
      EXPECT_EQ(is_there(7), !fails);
    }
  }
}

TEST_F(DiskTierTest, segments_are_sealed_and_room_is_made_between_writes) {
  open(4, {.segment_bytes = 60'000, .capacity_bytes = 240'000});
  for (BlockHash from = 1; from < 200; from += 25) {
    put_all(from, from + 24);
    for (BlockHash hash = from; hash < from + 25; ++hash)
      ASSERT_TRUE(tasks_[hash].status.ok()) << hash << tasks_[hash].status.to_string();
  }
  EXPECT_GT(tier_->store().figures().reclaimed_segments, 5U);
  EXPECT_FALSE(is_there(1));
  for (BlockHash hash = 1; hash <= 200; ++hash) EXPECT_EQ(get(hash).ok(), is_there(hash)) << hash;
  EXPECT_TRUE(is_there(200) && is_there(190));
}

TEST_F(DiskTierTest, a_full_disk_makes_room_and_one_that_others_filled_refuses) {
  files_->set_capacity(600'000);
  open(5, {.segment_bytes = 100'000});
  for (BlockHash from = 1; from < 150; from += 10) put_all(from, from + 9);
  EXPECT_TRUE(tasks_[150].status.ok()) << tasks_[150].status.to_string();
  EXPECT_GT(tier_->store().figures().reclaimed_segments, 0U);
  files_->inject({.on = FileOp::write, .times = UINT64_MAX / 2, .errno_value = ENOSPC});
  put_all(201, 203);
  for (BlockHash hash = 201; hash <= 203; ++hash) {
    const Status& full = tasks_[hash].status;
    EXPECT_EQ(full.code(), Code::exhausted) << hash;
    EXPECT_NE(full.hint(), "") << hash;
    EXPECT_THAT(full.to_string(), HasSubstr("ENOSPC")) << hash;
  }
  files_->heal();
  put_all(301, 303);
  EXPECT_TRUE(is_there(301) && is_there(303));
}

TEST_F(DiskTierTest, what_is_freed_for_one_of_many_that_found_no_space_does_for_all) {
  files_->set_capacity(1'000'000);
  open(5, {.segment_bytes = 100'000});
  put_all(1, 70);
  const auto reclaimed = [&] { return tier_->store().figures().reclaimed_segments; };
  BlockHash from = 71;
  for (; reclaimed() == 0; from += 10) put_all(from, from + 9);  // as much as a segment has
  EXPECT_TRUE(is_there(from - 1));
  EXPECT_LE(reclaimed(), 3U) << "ten found no space";
}

TEST_F(DiskTierTest, many_that_find_no_space_give_up_no_more_than_one_needs) {
  open(5, {.segment_bytes = 100'000});
  for (BlockHash from = 1; from < 150; from += 10) put_all(from, from + 9);
  files_->inject({.on = FileOp::write, .times = UINT64_MAX / 2, .errno_value = ENOSPC});
  put_all(201, 240);
  put_all(241, 280);
  EXPECT_EQ(tasks_[280].status.code(), Code::exhausted);
  EXPECT_LE(tier_->store().figures().reclaimed_segments, 2U);
  EXPECT_TRUE(is_there(150) && is_there(100));
  const auto reclaimed = tier_->store().figures().reclaimed_segments;
  for (BlockHash from = 1001; from < 1281; from += 40) put_all(from, from + 39);
  EXPECT_EQ(tier_->store().figures().reclaimed_segments, reclaimed + 1) << "one for 256 refused";
  files_->heal();
  put_all(301, 303);
  EXPECT_TRUE(is_there(301) && is_there(303));
}

TEST_F(DiskTierTest, what_waits_can_be_cancelled_and_what_is_removed_is_gone_at_once) {
  open(6);
  put_all(1, 2);
  for (BlockHash hash = 10; hash <= 60; ++hash) begin_put(hash);
  tier_->cancel(tasks_[60]);
  EXPECT_EQ(tasks_[60].status.code(), Code::cancelled) << "its turn had not come";
  EXPECT_TRUE(tier_->remove(1).ok());
  EXPECT_FALSE(is_there(1));
  EXPECT_EQ(tier_->remove(1).code(), Code::not_found);
  while (step()) {
  }
  EXPECT_TRUE(is_there(59));
  files_->crash();
  open(6);
  EXPECT_EQ(get(1).code(), Code::not_found) << "the removal was written, too";
  EXPECT_TRUE(get(2).ok());
}

TEST_F(DiskTierTest, a_removal_does_not_remove_what_was_being_put_and_is_found_again) {
  const BlockStoreOptions small{.segment_bytes = 60'000, .capacity_bytes = 240'000};
  for (const bool waits : {false, true}) {
    begin_anew();
    open(8, small);
    for (BlockHash from = 1; from <= 30; from += 5) put_all(from, from + 4);
    BlockHash leaving = 1;
    while (!tier_->is_leaving(leaving)) ASSERT_LT(++leaving, 30U);
    if (waits)  // behind as many as are written at once
      for (BlockHash hash = 101; hash <= 140; ++hash) begin_put(hash);
    begin_put(leaving);
    ASSERT_TRUE(tier_->remove(leaving).ok());
    EXPECT_FALSE(is_there(leaving));
    while (step()) {
    }
    ASSERT_TRUE(tasks_[leaving].status.ok()) << tasks_[leaving].status.to_string();
    EXPECT_TRUE(is_there(leaving));
    files_->crash();
    open(8, small);
    EXPECT_TRUE(get(leaving).ok()) << waits;
  }
}

TEST_F(DiskTierTest, a_removal_that_finds_no_space_does_not_remove_what_was_put_since) {
  const BlockStoreOptions small{.segment_bytes = 100'000};
  open(7, small);
  put_all(1, 30);  // three segments, and three quarters of the fourth
  device_->in_order = true;
  files_->inject({.on = FileOp::write, .errno_value = ENOSPC});
  ASSERT_TRUE(tier_->remove(20).ok());
  put_all(20, 20);
  EXPECT_TRUE(tasks_[20].status.ok()) << tasks_[20].status.to_string();
  EXPECT_TRUE(is_there(20));
  EXPECT_EQ(tier_->store().figures().reclaimed_segments, 0U) << "nothing lacks space any more";
  files_->crash();
  open(7, small);
  EXPECT_TRUE(get(20).ok());
}

TEST_F(DiskTierTest, a_removal_that_finds_no_memory_is_written_later) {
  open(7);
  put_all(1, 2);
  files_->inject({.on = FileOp::write, .errno_value = ENOMEM});
  ASSERT_TRUE(tier_->remove(1).ok());
  put_all(3, 3);
  EXPECT_TRUE(is_there(3));
  for (int i = 0; i < 10; ++i) (void)tier_->progress();
  files_->crash();
  open(7);
  EXPECT_EQ(get(1).code(), Code::not_found);
  EXPECT_TRUE(get(2).ok());
}

TEST_F(DiskTierTest, a_removal_that_finds_no_memory_holds_up_no_end) {
  open(7);
  put_all(1, 2);
  files_->inject({.on = FileOp::write,
                  .times = UINT64_MAX / 2,
                  .errno_value = ENOMEM,
                  .path_part = "segment"});
  ASSERT_TRUE(tier_->remove(1).ok());
  ::alarm(60);  // what hangs must end
  tier_->checkpoint();
  ::alarm(0);
  files_->heal();
  files_->crash();
  open(7);
  EXPECT_EQ(get(1).code(), Code::not_found) << "the checkpoint knows it no more";
  EXPECT_TRUE(get(2).ok());
}

TEST_F(DiskTierTest, a_removal_whose_record_is_lost_is_in_the_index_soon) {
  struct Loss {
    FileFault first;
    FileFault second;  // of another kind, or none
  };
  const FileFault none{.on = FileOp::start_sync, .nth = UINT64_MAX};
  const FileFault write{.on = FileOp::write, .path_part = "segment"};
  const FileFault sync{.on = FileOp::sync, .path_part = "segment"};
  const FileFault index{.on = FileOp::write, .path_part = "index"};
  for (const Loss& loss : {Loss{write, none}, Loss{sync, none}, Loss{write, index}}) {
    begin_anew();
    open(9);
    put_all(1, 3);
    files_->inject(loss.first);
    files_->inject(loss.second);
    ASSERT_TRUE(tier_->remove(1).ok());
    while (step()) {
    }
    if (loss.second.on == FileOp::write) put_all(4, 4);  // after whose sync it is tried again
    files_->crash();
    open(9);
    EXPECT_EQ(get(1).code(), Code::not_found) << "no checkpoint was asked for";
    EXPECT_TRUE(get(2).ok() && get(3).ok());
  }
}

TEST_F(DiskTierTest, a_disk_that_refuses_the_index_is_asked_for_it_less_and_less) {
  open(9);
  put_all(1, 3);
  files_->inject({.on = FileOp::write, .path_part = "segment"});
  files_->inject({.on = FileOp::write, .times = UINT64_MAX / 2, .path_part = "index"});
  ASSERT_TRUE(tier_->remove(1).ok());
  while (step()) {
  }
  const std::uint64_t before = files_->calls(FileOp::open);
  for (BlockHash hash = 4; hash < 34; ++hash) put_all(hash, hash);
  EXPECT_LE(files_->calls(FileOp::open) - before, 6U) << "the segment; after 1, 2, 4, 8, 16 syncs";
  files_->heal();
  put_all(34, 70);
  files_->crash();
  open(9);
  EXPECT_EQ(get(1).code(), Code::not_found);
}

TEST_F(DiskTierTest, a_removal_that_was_written_beside_a_failed_sync_is_in_the_index_soon) {
  open(9);
  put_all(1, 3);
  device_->keeps_syncs = true;
  begin_put(4);
  while (step()) {
  }
  ASSERT_FALSE(tasks_[4].has_ended) << "its sync is under way";
  ASSERT_TRUE(tier_->remove(1).ok());
  device_->keeps_syncs = false;
  files_->inject({.on = FileOp::sync, .path_part = "segment"});
  while (step()) {
  }
  EXPECT_FALSE(tasks_[4].status.ok());
  files_->crash();
  open(9);
  EXPECT_EQ(get(1).code(), Code::not_found);
  EXPECT_TRUE(get(2).ok() && get(3).ok());
}

// The machine dies after each step of its disk in turn, with what was under way done in any order,
// and any of the pages that were not synced on the disk.
void DiskTierTest::die_at_any_step(const BlockStoreOptions& options, BlockHash already_there) {
  std::mt19937_64 random(77);
  RecordProperty("seed", 77);
  for (std::uint64_t steps = 0; steps < 90; ++steps) {
    for (int order = 0; order < 2; ++order) {
      begin_anew();
      open(random(), options);
      for (BlockHash from = 1; from <= already_there; from += 10) put_all(from, from + 9);
      const BlockHash last = already_there + 30;
      device_->steps_left = steps;
      for (BlockHash from = already_there + 1; from <= last; from += 10) put_all(from, from + 9);
      std::set<BlockHash> said;
      for (const BlockEvent& event : block_directory_->snapshot()) said.insert(event.hash);
      files_->crash([&] { return random() % 2 == 0; });
      open(random(), options);
      for (BlockHash hash = 1; hash <= last; ++hash) {
        const Status got = get(hash);  // fails the test when bytes are wrong
        ASSERT_TRUE(got.ok() || !said.contains(hash))
            << "after " << steps << " steps, block " << hash << ": " << got.to_string();
      }
      put_all(1000, 1001);
      ASSERT_TRUE(get(1000).ok());
    }
  }
}

TEST_F(DiskTierTest, dying_at_any_step_in_any_order_loses_nothing_said_to_be_there) {
  die_at_any_step({.segment_bytes = 60'000}, 0);
}

TEST_F(DiskTierTest, dying_while_segments_are_written_over_loses_nothing_said_to_be_there) {
  die_at_any_step({.segment_bytes = 60'000, .capacity_bytes = 240'000}, 60);
}

}  // namespace
}  // namespace towpath::kv
