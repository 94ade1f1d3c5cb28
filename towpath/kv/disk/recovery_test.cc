// What an opening finds again of what earlier lives left.
#include <cerrno>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/disk/store_fixture.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;
using testing::open_store;

class RecoveryTest : public testing::StoreFixture {
 protected:
  /// From then on nothing more is read of the first segment: its header is read twice, then the
  /// rest.
  void fail_reads_from(std::uint64_t nth) {
    files_.inject({.on = FileOp::read,
                   .nth = nth,
                   .times = UINT64_MAX / 2,
                   .path_part = Segment::file_name(1)});
  }
};

TEST_F(RecoveryTest, a_checkpoint_saves_the_look_at_what_it_knows) {
  const BlockStoreOptions small{.segment_bytes = 1'000'000};
  auto store = open_store(files_, small);
  put(*store, 1, 10);
  ASSERT_TRUE(store->checkpoint().ok());
  put(*store, 11, 13);
  ASSERT_TRUE(store->sync().ok());
  const auto reads = files_.calls(FileOp::read);
  store.reset();
  store = open_store(files_, small);
  EXPECT_EQ(store->figures().from_index, 10U);
  EXPECT_EQ(store->figures().from_scan, 3U);
  EXPECT_LT(files_.calls(FileOp::read) - reads, 13U);
  expect_all(*store, 1, 13);
}

TEST_F(RecoveryTest, what_a_killed_life_left_unsynced_is_on_the_disk_when_it_is_found) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  store.reset();
  store = open_store(files_);
  EXPECT_TRUE(store->is_acknowledged(1));
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  expect_all(*open_store(files_), 1, 3);
}

// Linux takes the pages of a sync that failed for written: the next sync succeeds, and has not
// written them.
TEST_F(RecoveryTest, what_a_failed_sync_left_in_the_page_cache_alone_is_not_found) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  put(*store, 4, 6);
  files_.inject({.on = FileOp::sync, .effect = FileEffect::lose});
  ASSERT_FALSE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  expect_all(*store, 1, 3);
  for (BlockHash hash = 4; hash <= 6; ++hash) EXPECT_FALSE(store->is_acknowledged(hash)) << hash;
  put(*store, 4, 6);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  expect_all(*open_store(files_), 1, 6);
}

TEST_F(RecoveryTest, a_segment_whose_header_is_in_the_page_cache_alone_holds_no_block) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  files_.inject({.on = FileOp::sync, .effect = FileEffect::lose, .bytes = kSegmentPage});
  ASSERT_FALSE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  EXPECT_EQ(store->figures().blocks, 0U);
  EXPECT_EQ(store->figures().reported.size(), 1U);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  expect_all(*open_store(files_), 1, 3);
}

TEST_F(RecoveryTest, a_segment_that_cannot_be_synced_is_there_for_the_next_opening) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.inject({.on = FileOp::sync, .path_part = Segment::file_name(1)});
  store = open_store(files_);
  EXPECT_EQ(store->figures().blocks, 0U) << "what it has may be gone after a crash";
  EXPECT_EQ(store->figures().reported.size(), 1U);
  put(*store, 4, 4);
  ASSERT_TRUE(store->checkpoint().ok());
  store.reset();
  expect_all(*open_store(files_), 1, 4);
}

TEST_F(RecoveryTest, what_was_removed_before_a_failed_sync_is_acknowledged_by_the_next) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  ASSERT_TRUE(store->remove(2).ok());
  files_.inject({.on = FileOp::sync});
  ASSERT_FALSE(store->sync().ok());
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2));
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 3);
}

TEST_F(RecoveryTest, what_was_removed_before_a_failed_sync_stays_so_where_its_file_is_shorter) {
  files_.inject({.on = FileOp::preallocate, .times = UINT64_MAX / 2});
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  ASSERT_TRUE(store->remove(2).ok());
  files_.inject({.on = FileOp::sync});
  ASSERT_FALSE(store->sync().ok());
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2)) << "the index says so, and ends behind the file";
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 3);
}

TEST_F(RecoveryTest, a_removal_that_could_not_be_written_is_acknowledged_by_the_next_sync) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::write});
  ASSERT_EQ(store->remove(2).code(), Code::io_error);
  EXPECT_EQ(store->remove(2).code(), Code::not_found);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2));
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 3);
}

TEST_F(RecoveryTest, a_removal_before_a_failed_sync_is_not_acknowledged_behind_an_unread_segment) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  put(*store, 4, 4);
  ASSERT_TRUE(store->sync().ok());
  fail_reads_from(3);
  store.reset();
  store = open_store(files_);
  ASSERT_TRUE(store->find(4));
  ASSERT_TRUE(store->remove(4).ok());
  files_.inject({.on = FileOp::sync});
  ASSERT_FALSE(store->sync().ok());
  EXPECT_EQ(store->sync().code(), Code::io_error) << "an index ends before block 4's segment";
  EXPECT_EQ(store->sync().code(), Code::io_error) << "as long as that is so";
}

TEST_F(RecoveryTest, what_was_removed_stays_removed_when_its_segment_cannot_be_synced) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->checkpoint().ok());
  ASSERT_TRUE(store->remove(2).ok());
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.inject({.on = FileOp::sync, .path_part = Segment::file_name(1)});
  store = open_store(files_);
  EXPECT_EQ(store->figures().reported.size(), 1U);
  EXPECT_FALSE(store->find(2)) << "its removal was acknowledged";
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 3);
}

TEST_F(RecoveryTest, what_was_removed_stays_removed_where_an_old_file_cannot_be_removed) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 20);
  ASSERT_TRUE(store->remove(1).ok());
  ASSERT_TRUE(store->sync().ok());
  for (const FileOp op : {FileOp::rename, FileOp::remove})
    files_.inject({.on = op, .times = UINT64_MAX / 2, .path_part = Segment::file_name(1)});
  Status last;
  for (BlockHash hash = 21; hash <= 200; ++hash) last = testing::put_block(*store, hash);
  EXPECT_EQ(last.code(), Code::io_error) << "there is no room while that file takes it";
  files_.heal();
  store.reset();
  store = open_store(files_, small);
  EXPECT_FALSE(store->find(1)) << "its removal was acknowledged";
  put(*store, 201, 300);
  expect_all(*store, 290, 300);
}

TEST_F(RecoveryTest, an_old_file_is_not_written_to_before_all_know_its_new_name) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 1);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_, small);
  ASSERT_TRUE(store->remove(1).ok());
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_, small);
  BlockHash hash = 2;
  while (store->figures().segments < 5) put(*store, hash, hash), ++hash;
  // The first file goes, and the second, which says that block 1 was removed, becomes the sixth's.
  files_.inject({.on = FileOp::sync_directory, .times = UINT64_MAX / 2});
  while (testing::put_block(*store, hash).ok()) ++hash;
  ASSERT_FALSE(store->find(1));
  store.reset();
  files_.heal();
  files_.crash([is_names = true]() mutable { return !std::exchange(is_names, false); });
  store = open_store(files_, small);
  EXPECT_FALSE(store->find(1)) << "its removal was acknowledged";
}

TEST_F(RecoveryTest, an_old_file_that_is_not_there_leaves_room_all_the_same) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 20);
  ASSERT_TRUE(files_.remove(path_of(1)).ok());
  put(*store, 21, 100);
  ASSERT_TRUE(store->sync().ok());
  expect_all(*store, 90, 100);
}

TEST_F(RecoveryTest, what_an_opening_misses_is_not_found_by_the_next_one) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::write});
  ASSERT_FALSE(store->remove(2).ok());
  files_.inject({.on = FileOp::sync_directory});
  ASSERT_FALSE(store->sync().ok()) << "the index without block 2 has its name in memory alone";
  store.reset();
  store = open_store(files_);
  EXPECT_EQ(store->remove(2).code(), Code::not_found);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2));
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 3);
}

TEST_F(RecoveryTest, names_that_an_opening_cannot_sync_are_synced_with_the_next_sync) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::write});
  ASSERT_FALSE(store->remove(2).ok());
  files_.inject({.on = FileOp::sync_directory, .times = 2});
  ASSERT_FALSE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.crash();
  EXPECT_FALSE(open_store(files_)->find(2));
}

TEST_F(RecoveryTest, a_file_system_that_knows_no_syncing_is_read_all_the_same) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  files_.inject({.on = FileOp::sync, .errno_value = EINVAL, .path_part = Segment::file_name(1)});
  expect_all(*open_store(files_), 1, 3);
}

TEST_F(RecoveryTest, a_damaged_or_lost_index_costs_a_look_and_no_block) {
  auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->checkpoint().ok());
  spoil(cat(testing::kDirectory, "/index"), 100);
  store.reset();
  store = open_store(files_);
  EXPECT_THAT(store->figures().reported, ::testing::ElementsAre(::testing::HasSubstr("of no use")));
  expect_all(*store, 1, 10);
  store.reset();
  ASSERT_TRUE(files_.remove(cat(testing::kDirectory, "/index")).ok());
  expect_all(*open_store(files_), 1, 10);
}

TEST_F(RecoveryTest, a_damaged_record_header_costs_that_block_only) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  spoil(path_of(1), kSegmentPage + 40);
  store.reset();
  store = open_store(files_);
  EXPECT_FALSE(store->find(1));
  expect_all(*store, 2, 3);
}

TEST_F(RecoveryTest, a_damaged_segment_header_costs_the_segment_and_is_reported) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  spoil(path_of(1), 33);
  store.reset();
  store = open_store(files_);
  EXPECT_EQ(store->figures().blocks, 0U);
  EXPECT_EQ(store->figures().reported.size(), 1U);
}

// On a drive an index may have the place of a segment whose name is on the drive yet.
TEST_F(RecoveryTest, a_segments_file_that_holds_an_index_is_removed) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->checkpoint().ok());
  store.reset();
  ASSERT_TRUE(files_.rename({cat(testing::kDirectory, "/index"), path_of(7)}).ok());
  ASSERT_TRUE((*files_.open(path_of(7), {.writable = true}))->resize(2 * kSegmentPage).ok());
  store = open_store(files_);
  EXPECT_THAT(store->figures().reported,
              ::testing::ElementsAre(::testing::HasSubstr("no segment")));
  EXPECT_EQ(files_.kind_of(path_of(7)), sys::PathKind::none);
  EXPECT_FALSE(store->may_be_replaced(1)) << "there is nothing in it";
  expect_all(*store, 1, 3);
}

TEST_F(RecoveryTest, space_that_a_life_took_and_did_not_fill_is_given_back) {
  auto store = open_store(files_, {.segment_bytes = 100'000});
  put(*store, 1, 2);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_GE(store->figures().bytes, 100'000U);
  files_.crash();
  store.reset();
  store = open_store(files_, {.segment_bytes = 100'000});
  EXPECT_LT(store->figures().bytes, 30'000U);
  expect_all(*store, 1, 2);
}

TEST_F(RecoveryTest, lives_that_wrote_nothing_leave_no_files) {
  for (int life = 0; life < 5; ++life) (void)open_store(files_);
  EXPECT_EQ(files_.list(testing::kDirectory)->size(), 1U) << "the lock";
}

TEST_F(RecoveryTest, one_failed_read_at_opening_costs_no_block) {
  auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->sync().ok());
  BlockHash last = 10;
  for (std::uint64_t read = 1; read <= 13; ++read) {  // the header, twice, a window, the blocks
    (void)files_.remove(cat(testing::kDirectory, "/index"));
    files_.inject({.on = FileOp::read, .nth = read, .path_part = Segment::file_name(1)});
    store.reset();
    store = open_store(files_);
    ++last;
    put(*store, last, last);
    ASSERT_TRUE(store->checkpoint().ok());
    files_.heal();
    store.reset();
    store = open_store(files_);
    expect_all(*store, 1, last);
    ASSERT_FALSE(HasFailure()) << "read " << read;
  }
}

TEST_F(RecoveryTest, a_segment_that_cannot_be_read_is_there_for_the_next_opening) {
  auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->sync().ok());
  fail_reads_from(3);
  const auto reads = files_.calls(FileOp::read);
  store.reset();
  store = open_store(files_);
  EXPECT_LT(files_.calls(FileOp::read) - reads, 30U) << "it ends although the file is long";
  EXPECT_EQ(store->figures().blocks, 0U);
  EXPECT_EQ(store->figures().reported.size(), 1U);
  put(*store, 11, 11);
  ASSERT_TRUE(store->checkpoint().ok());
  files_.heal();
  store.reset();
  store = open_store(files_);
  expect_all(*store, 1, 11);
}

TEST_F(RecoveryTest, a_page_that_cannot_be_read_hides_no_block_but_its_own) {
  auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->sync().ok());
  // After the segment's header, twice: the window; then alone block 1's header, its bytes, 2's
  // header.
  for (const std::uint64_t nth : {3U, 6U})
    files_.inject({.on = FileOp::read, .nth = nth, .path_part = Segment::file_name(1)});
  store.reset();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2));
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 10);
  ASSERT_TRUE(store->checkpoint().ok());
  store.reset();
  store = open_store(files_);
  expect_all(*store, 1, 10);
}

// The removal of block 2 lies behind the segment that has it. Where that one could not be read,
// its file goes before the removal does, or the next opening would find it alone.
TEST_F(RecoveryTest, what_was_removed_stays_removed_when_its_segment_was_not_opened_for_a_life) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_, small);
  ASSERT_TRUE(store->remove(2).ok());
  ASSERT_TRUE(store->sync().ok());
  fail_reads_from(1);
  store.reset();
  store = open_store(files_, small);
  EXPECT_EQ(store->figures().reported.size(), 1U);
  put(*store, 21, 200);
  ASSERT_TRUE(store->sync().ok());
  ASSERT_GT(store->figures().reclaimed_segments, 2U) << "the removal is gone";
  files_.heal();
  store.reset();
  store = open_store(files_, small);
  EXPECT_FALSE(store->find(2)) << "its removal was acknowledged";
  expect_all(*store, 190, 200);
}

TEST_F(RecoveryTest, a_damaged_segment_that_cannot_be_removed_is_looked_for_by_the_next_opening) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  ASSERT_TRUE(store->remove(2).ok());
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  spoil(path_of(1), 33);
  files_.inject({.on = FileOp::remove, .path_part = Segment::file_name(1)});
  store = open_store(files_);
  put(*store, 4, 4);
  ASSERT_TRUE(store->checkpoint().ok());
  store.reset();
  spoil(path_of(1), 33);  // the byte was wrong on its way alone
  store = open_store(files_);
  EXPECT_FALSE(store->find(2)) << "its removal lies in a later segment";
  expect_all(*store, 3, 4);
}

/// The first read of the segment that fails is that of its header, from the page cache or from the
/// disk, or of what is behind it.
class UnreadSegmentTest : public RecoveryTest,
                          public ::testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(From, UnreadSegmentTest, ::testing::Values(1, 2, 3));

TEST_P(UnreadSegmentTest, what_was_removed_stays_removed_when_its_segment_is_read_later) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  store = open_store(files_);
  ASSERT_TRUE(store->remove(2).ok());
  ASSERT_TRUE(store->sync().ok());
  fail_reads_from(GetParam());
  store.reset();
  store = open_store(files_);
  put(*store, 4, 4);
  ASSERT_TRUE(store->checkpoint().ok());
  files_.heal();
  store.reset();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2)) << "its removal lies in a later segment";
  expect_all(*store, 1, 1);
  expect_all(*store, 3, 4);
}

}  // namespace
}  // namespace towpath::kv
