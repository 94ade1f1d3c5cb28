#include <array>
#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/kv/disk/record_io.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;
using testing::get_block;
using testing::open_store;
using testing::put_block;

struct AlignedPages {
  alignas(kSegmentPage) std::array<std::byte, 2 * kSegmentPage> bytes;
};

class BlockStoreTest : public testing::StoreFixture {};

TEST_F(BlockStoreTest, what_was_acknowledged_comes_back_after_a_crash_and_nothing_else_does) {
  auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->sync().ok());
  put(*store, 11, 12);
  expect_all(*store, 1, 12);
  files_.crash();
  store.reset();
  store = open_store(files_);
  expect_all(*store, 1, 10);
  EXPECT_EQ(store->figures().from_scan, 10U);
  EXPECT_FALSE(store->find(11));
}

TEST_F(BlockStoreTest, the_disk_begins_before_the_sync_when_there_is_much_to_write) {
  const auto store = open_store(files_, {.segment_bytes = 50'000'000});
  const Bytes block(kMiB);
  const auto put = [&](BlockHash first, BlockHash last) {
    for (BlockHash hash = first; hash <= last; ++hash)
      ASSERT_TRUE(store->put(hash, digest_of(block, 5), block).ok());
  };
  put(1, 3);
  EXPECT_EQ(files_.calls(FileOp::start_sync), 0U);
  put(4, 10);
  EXPECT_EQ(files_.calls(FileOp::start_sync), 2U);
  ASSERT_TRUE(store->sync().ok());
  put(11, 12);
  EXPECT_EQ(files_.calls(FileOp::start_sync), 2U) << "what is synced is no more to be begun";
}

TEST_F(BlockStoreTest, a_disk_with_less_than_a_segment_is_not_filled_to_find_that_out) {
  files_.set_capacity(testing::kSegmentBytes - 100'000);
  const auto store = open_store(files_);
  put(*store, 1, 10);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(files_.calls(FileOp::preallocate), 0U);
  EXPECT_LT(store->figures().bytes, 200'000U);
  files_.set_capacity(2 * testing::kSegmentBytes);
  const auto other = open_store(files_, {.directory = "/other", .segment_bytes = 1'000'000});
  put(*other, 1, 1);
  EXPECT_EQ(files_.calls(FileOp::preallocate), 1U) << "where there is enough it is taken";
  EXPECT_EQ(other->figures().bytes, 1'000'000U);
}

TEST_F(BlockStoreTest, bytes_that_do_not_match_are_never_written) {
  auto store = open_store(files_);
  EXPECT_EQ(store->put(1, testing::digest_of_block(2), testing::bytes_of_block(1)).code(),
            Code::corrupt);
  EXPECT_FALSE(store->find(1));
  EXPECT_EQ(store->figures().quarantined.at("wrong before it was written"), 1U);
}

TEST_F(BlockStoreTest, a_flipped_bit_makes_a_miss_of_one_block_and_is_counted) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->checkpoint().ok());
  spoil(path_of(1), kSegmentPage + kSegmentPage + 17);  // in the first block's bytes
  store.reset();
  store = open_store(files_);
  const Status got = get_block(*store, 1);
  EXPECT_EQ(got.code(), Code::corrupt);
  EXPECT_THAT(got.to_string(), ::testing::HasSubstr("digest mismatch"));
  EXPECT_EQ(get_block(*store, 1).code(), Code::not_found) << "asked for again, it is a miss";
  EXPECT_EQ(store->figures().quarantined.at("digest mismatch"), 1U);
  expect_all(*store, 2, 3);
  put(*store, 1, 1);
  expect_all(*store, 1, 3);
}

TEST_F(BlockStoreTest, a_read_that_finds_no_memory_costs_no_block) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::read, .errno_value = ENOMEM});
  EXPECT_EQ(get_block(*store, 1).code(), Code::exhausted);
  EXPECT_TRUE(store->figures().quarantined.empty());
  expect_all(*store, 1, 3);
}

TEST_F(BlockStoreTest, what_was_removed_stays_removed) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->checkpoint().ok());
  ASSERT_TRUE(store->remove(2).ok());
  EXPECT_EQ(store->remove(2).code(), Code::not_found);
  ASSERT_TRUE(store->sync().ok());
  files_.crash();
  store.reset();
  store = open_store(files_);
  EXPECT_FALSE(store->find(2));
  expect_all(*store, 3, 3);
}

TEST_F(BlockStoreTest, at_capacity_the_oldest_go_and_what_is_put_again_stays) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  for (BlockHash hash = 1; hash <= 200; ++hash) {
    ASSERT_TRUE(put_block(*store, hash).ok());
    if (store->is_leaving(1)) put(*store, 1, 1);
    ASSERT_TRUE(get_block(*store, 1).ok()) << "it was put again in time, after " << hash;
  }
  const auto figures = store->figures();
  EXPECT_FALSE(store->find(2));
  EXPECT_LE(figures.bytes, 400'000U);
  EXPECT_GT(figures.reclaimed_segments, 10U);
  EXPECT_GE(figures.kept, 3U);
  EXPECT_LE(figures.kept, figures.reclaimed_segments) << "not each time that it was put";
  ASSERT_TRUE(store->sync().ok());
  files_.crash();
  store.reset();
  store = open_store(files_, small);
  EXPECT_TRUE(get_block(*store, 1).ok());
  expect_all(*store, 180, 200);
}

TEST_F(BlockStoreTest, what_two_puts_have_written_is_leaving_in_its_time_too) {
  auto store = open_store(files_, {.segment_bytes = 100'000, .capacity_bytes = 400'000});
  const Bytes bytes = testing::bytes_of_block(1);
  const Record record{.hash = 1, .digest = testing::digest_of_block(1), .length = bytes.size()};
  RecordWrite first, second;
  ASSERT_TRUE(store->begin(first, record, bytes).ok());
  ASSERT_TRUE(store->begin(second, record, bytes).ok());
  for (RecordWrite* const write : {&first, &second}) {  // the second arrives behind the sync
    (void)store->device().finish(write->request);
    ASSERT_TRUE(store->end(*write).ok() && store->sync().ok());
  }
  EXPECT_EQ(store->figures().kept, 0U);
  put(*store, 2, 2);
  BlockHash hash = 3;
  for (; !store->is_leaving(2); ++hash) put(*store, hash, hash);
  EXPECT_TRUE(store->is_leaving(1));
  put(*store, 1, 1);
  for (; store->find(2); ++hash) put(*store, hash, hash);
  EXPECT_TRUE(get_block(*store, 1).ok()) << "it was put again in time";
}

TEST_F(BlockStoreTest, another_life_knows_what_is_leaving_and_holds_to_the_capacity) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 30);
  ASSERT_TRUE(store->is_leaving(1));
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  BlockStoreOptions smaller = small;
  smaller.segment_bytes = 25'000;
  store = open_store(files_, smaller);
  EXPECT_TRUE(store->is_leaving(1));
  EXPECT_FALSE(store->is_leaving(30));
  for (BlockHash hash = 31; hash <= 120; ++hash) {
    put(*store, hash, hash);
    ASSERT_LE(store->figures().bytes, 400'000U) << "after block " << hash;
  }
  expect_all(*store, 110, 120);
}

TEST_F(BlockStoreTest, what_is_leaving_is_where_it_was_until_what_was_put_again_is_there_for_good) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  for (BlockHash hash = 1; !store->is_leaving(1); ++hash) put(*store, hash, hash);
  ASSERT_TRUE(store->sync().ok());
  put(*store, 1, 1);
  EXPECT_EQ(store->figures().kept, 1U);
  files_.inject({.on = FileOp::sync});
  EXPECT_EQ(store->sync().code(), Code::io_error);
  EXPECT_TRUE(get_block(*store, 1).ok()) << "only its second copy was lost";
  put(*store, 1, 1);
  ASSERT_TRUE(store->remove(1).ok());
  ASSERT_TRUE(store->sync().ok());
  EXPECT_FALSE(store->find(1)) << "the sync of a copy does not bring it back";
}

TEST_F(BlockStoreTest, what_was_put_again_outlives_its_old_copy_that_is_found_wrong) {
  BlockDirectory block_directory;
  const BlockStoreOptions small{.segment_bytes = 100'000,
                                .capacity_bytes = 400'000,
                                .block_directory = &block_directory,
                                .tier = 3};
  auto store = open_store(files_, small);
  for (BlockHash hash = 1; !store->is_leaving(1); ++hash) put(*store, hash, hash);
  ASSERT_TRUE(store->is_leaving(2));
  ASSERT_TRUE(store->sync().ok());
  const std::uint64_t first = kSegmentPage,
                      second = first + room_of({.length = testing::bytes_of_block(1).size()});
  for (const std::uint64_t record : {first, second}) spoil(path_of(1), record + kSegmentPage + 17);
  put(*store, 1, 1);
  SegmentSync sync;
  ASSERT_TRUE(store->begin(sync));
  put(*store, 2, 2);
  for (const BlockHash hash : {1U, 2U}) {  // one that is being synced, and one that is not
    EXPECT_EQ(get_block(*store, hash).code(), Code::corrupt) << hash;
    EXPECT_EQ(block_directory.tiers_of(hash), 0U) << hash << ": nothing of it is there for good";
    EXPECT_TRUE(get_block(*store, hash).ok()) << hash;
  }
  (void)store->device().finish(sync.request);
  ASSERT_TRUE(store->end(sync).ok());
  EXPECT_EQ(block_directory.tiers_of(1), 0b1000U);
  EXPECT_EQ(block_directory.tiers_of(2), 0U);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(block_directory.tiers_of(2), 0b1000U);
  expect_all(*store, 1, 2);
}

TEST_F(BlockStoreTest, a_sync_acknowledges_nothing_that_was_put_since_it_began) {
  BlockDirectory block_directory;
  auto store = open_store(files_, {.block_directory = &block_directory, .tier = 3});
  put(*store, 1, 1);
  SegmentSync sync;
  ASSERT_TRUE(store->begin(sync));
  ASSERT_TRUE(store->remove(1).ok());
  put(*store, 1, 1);
  (void)store->device().finish(sync.request);
  ASSERT_TRUE(store->end(sync).ok());
  EXPECT_EQ(block_directory.tiers_of(1), 0U);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(block_directory.tiers_of(1), 0b1000U);
}

TEST_F(BlockStoreTest, a_wrong_block_that_two_read_is_met_once) {
  auto store = open_store(files_);
  put(*store, 1, 1);
  ASSERT_TRUE(store->sync().ok());
  spoil(path_of(1), kSegmentPage + kSegmentPage + 17);
  Bytes bytes(testing::bytes_of_block(1).size());
  BlockRead reads[2];
  for (BlockRead& read : reads) ASSERT_TRUE(store->begin(read, 1, bytes).ok());
  for (BlockRead& read : reads) (void)store->device().finish(read.request);
  EXPECT_EQ(store->end(reads[0]).code(), Code::corrupt);
  EXPECT_EQ(store->end(reads[1]).code(), Code::not_found);
  EXPECT_EQ(store->figures().quarantined.at("digest mismatch"), 1U);
}

TEST_F(BlockStoreTest, a_segment_that_is_read_from_is_not_written_over) {
  const BlockStoreOptions small{.segment_bytes = 100'000, .capacity_bytes = 400'000};
  auto store = open_store(files_, small);
  put(*store, 1, 1);
  Bytes bytes(testing::bytes_of_block(1).size());
  BlockRead read;
  ASSERT_TRUE(store->begin(read, 1, bytes).ok());
  put(*store, 2, 100);
  ASSERT_FALSE(store->find(1));
  (void)store->device().finish(read.request);
  EXPECT_TRUE(store->end(read).ok()) << read.request.status.to_string();
  EXPECT_EQ(bytes, testing::bytes_of_block(1));
}

TEST_F(BlockStoreTest, a_full_disk_makes_room_by_giving_up_the_oldest) {
  files_.set_capacity(600'000);
  auto store = open_store(files_, {.segment_bytes = 100'000});
  put(*store, 1, 200);
  ASSERT_TRUE(store->sync().ok());
  expect_all(*store, 190, 200);
  EXPECT_GT(store->figures().reclaimed_segments, 0U);
}

TEST_F(BlockStoreTest, a_disk_that_others_filled_refuses_and_serves_on) {
  auto store = open_store(files_);
  put(*store, 1, 5);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::write, .times = UINT64_MAX, .errno_value = ENOSPC});
  const Status full = put_block(*store, 6);
  EXPECT_EQ(full.code(), Code::exhausted);
  EXPECT_NE(full.hint(), "");
  EXPECT_NE(full.to_string().find("<- exhausted: cannot write"), std::string::npos)
      << full.to_string();
  files_.heal();
  put(*store, 7, 9);
  expect_all(*store, 7, 9);
}

TEST_F(BlockStoreTest, a_write_that_finds_no_memory_costs_no_other_block) {
  auto store = open_store(files_);
  put(*store, 1, 5);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::write, .errno_value = ENOMEM});
  EXPECT_EQ(put_block(*store, 6).code(), Code::unavailable);
  put(*store, 7, 7);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(store->figures().segments, 1U) << "it takes more records";
  EXPECT_EQ(store->figures().reclaimed_segments, 0U);
  files_.crash();
  store.reset();
  for (const std::string& path_part : {std::string("lock"), Segment::file_name(2)})
    files_.inject({.on = FileOp::write, .errno_value = ENOMEM, .path_part = path_part});
  store = open_store(files_);
  EXPECT_TRUE(store->read_only().ok()) << store->read_only().to_string();
  expect_all(*store, 1, 5);
  expect_all(*store, 7, 7);
}

TEST_F(BlockStoreTest, a_store_that_can_only_be_read_is_read) {
  auto store = open_store(files_);
  put(*store, 1, 5);
  ASSERT_TRUE(store->sync().ok());
  files_.inject({.on = FileOp::open,
                 .times = UINT64_MAX,
                 .errno_value = EROFS,
                 .path_part = Segment::file_name(2)});
  store.reset();
  store = open_store(files_);
  EXPECT_FALSE(store->read_only().ok());
  EXPECT_EQ(put_block(*store, 6).code(), Code::denied);
  expect_all(*store, 1, 5);
}

TEST_F(BlockStoreTest, after_a_failed_sync_what_was_not_acknowledged_is_gone) {
  auto store = open_store(files_);
  put(*store, 1, 2);
  ASSERT_TRUE(store->sync().ok());
  put(*store, 3, 4);
  files_.inject({.on = FileOp::sync});
  EXPECT_FALSE(store->sync().ok());
  expect_all(*store, 1, 2);
  EXPECT_FALSE(store->find(3));
  put(*store, 3, 4);
  ASSERT_TRUE(store->sync().ok());
  files_.crash();
  expect_all(*open_store(files_), 1, 4);
}

TEST_F(BlockStoreTest, a_sync_does_not_answer_for_one_that_began_before) {
  auto store = open_store(files_);
  put(*store, 1, 1);
  SegmentSync begun;
  ASSERT_TRUE(store->begin(begun));
  put(*store, 2, 2);
  EXPECT_EQ(store->sync().code(), Code::not_ready) << "it covers block 1 alone";
  (void)store->device().finish(begun.request);
  ASSERT_TRUE(store->end(begun).ok());
  EXPECT_FALSE(store->is_acknowledged(2));
  ASSERT_TRUE(store->sync().ok());
  EXPECT_TRUE(store->is_acknowledged(1) && store->is_acknowledged(2));
}

TEST_F(BlockStoreTest, a_second_opening_is_refused_and_reported_by_whom) {
  auto store = open_store(files_);
  const auto second = BlockStore::open(files_, {.directory = testing::kDirectory});
  EXPECT_EQ(second.code(), Code::unavailable);
  EXPECT_THAT(second.status().to_string(),
              ::testing::HasSubstr(cat("process ", ::getpid(), ", opening ")));
  put(*store, 1, 1);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  expect_all(*open_store(files_), 1, 1);
}

TEST_F(BlockStoreTest, a_directory_that_can_only_be_read_is_served_without_a_lock) {
  auto store = open_store(files_);
  put(*store, 1, 3);
  ASSERT_TRUE(store->sync().ok());
  store.reset();
  ASSERT_TRUE(files_.remove(cat(testing::kDirectory, "/lock")).ok());
  files_.inject({.on = FileOp::open,
                 .times = UINT64_MAX,
                 .errno_value = EROFS,
                 .path_part = Segment::file_name(2)});
  files_.inject({.on = FileOp::open, .errno_value = EROFS, .path_part = "lock"});
  store = open_store(files_);
  EXPECT_FALSE(store->read_only().ok());
  expect_all(*store, 1, 3);
}

TEST_F(BlockStoreTest, presence_is_reported_what_is_acknowledged_and_what_is_gone) {
  BlockDirectory block_directory;
  const BlockStoreOptions small{.segment_bytes = 100'000,
                                .capacity_bytes = 400'000,
                                .block_directory = &block_directory,
                                .tier = 3};
  auto store = open_store(files_, small);
  put(*store, 1, 2);
  EXPECT_EQ(block_directory.tiers_of(1), 0U) << "not before the sync";
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(block_directory.tiers_of(1), 0b1000U);
  ASSERT_TRUE(store->remove(1).ok());
  EXPECT_EQ(block_directory.tiers_of(1), 0U);
  put(*store, 3, 200);
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(block_directory.tiers_of(2), 0U) << "its segment went to make room";
  for (BlockHash hash = 1; hash <= 200; ++hash)
    ASSERT_EQ(block_directory.tiers_of(hash) != 0, store->find(hash).has_value()) << hash;
  const std::size_t there = block_directory.snapshot().size();
  store.reset();
  BlockDirectory anew;
  BlockStoreOptions again = small;
  again.block_directory = &anew;
  store = open_store(files_, again);
  EXPECT_EQ(anew.snapshot().size(), there);
}

/// Counts what goes past the page cache, and what does not.
struct CountingDevice final : sys::FileDevice {
  void begin(sys::FileRequest& request) override {
    if (request.kind != sys::FileIo::Kind::sync) ++(request.file->direct() ? direct : buffered);
    request.end(sys::perform(request));
  }
  void cancel(sys::FileRequest& /*request*/) override {}
  bool progress() override { return false; }
  std::string describe() const override { return "counting"; }
  int direct = 0, buffered = 0;
};

TEST_F(BlockStoreTest, aligned_blocks_go_past_the_page_cache_and_others_come_right_all_the_same) {
  const auto directory = sys::TemporaryDirectory::create("/var/tmp");
  ASSERT_TRUE(directory.ok());
  sys::SystemFileSystem files;
  const auto page = std::make_unique<AlignedPages>();
  const ByteSpan aligned(page->bytes);
  std::ranges::fill(aligned, std::byte{7});
  for (std::uint64_t life = 1; life <= 2; ++life) {
    auto counting = std::make_unique<CountingDevice>();
    CountingDevice& device = *counting;
    auto store = BlockStore::open(
        files, {.directory = directory->path(), .incarnation = life, .direct = true},
        std::move(counting));
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    if (const std::string& why = (*store)->figures().direct_refusal; !why.empty())
      GTEST_SKIP() << why;
    if (life == 1) {
      ASSERT_TRUE((*store)->put(100, digest_of(aligned, 5), aligned).ok());
      ASSERT_TRUE(put_block(**store, 1).ok());
      ASSERT_TRUE((*store)->sync().ok());
    }
    std::ranges::fill(aligned, std::byte{0});
    EXPECT_TRUE((*store)->get(100, aligned).ok());
    EXPECT_EQ(aligned.back(), std::byte{7});
    EXPECT_TRUE(get_block(**store, 1).ok());
    EXPECT_EQ(device.direct, life == 1 ? 2 : 1);
    EXPECT_EQ(device.buffered, life == 1 ? 2 : 1);
  }
}

TEST_F(BlockStoreTest, options_and_blocks_that_make_no_sense_are_refused) {
  EXPECT_EQ(BlockStore::open(files_, {}).code(), Code::invalid_argument);
  EXPECT_EQ(BlockStore::open(files_, {.directory = "/kv", .tier = kMaxTiers}).code(),
            Code::invalid_argument);
  auto store = open_store(files_, {.segment_bytes = 10'000});
  EXPECT_EQ(store->put(1, {}, {}).code(), Code::out_of_range);
  EXPECT_EQ(store->put(1, {}, Bytes(10'000)).code(), Code::out_of_range);
  Bytes room(5);
  EXPECT_EQ(store->get(1, room).code(), Code::not_found);
}

// A descriptor each, or two, of which many processes have 1,024.
TEST_F(BlockStoreTest, a_large_store_has_no_more_segments_for_it) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
  using Case = std::pair<std::uint64_t, bool>;
  for (const auto& [gib, direct] : {Case(16, false), {130, false}, {260, false}, {130, true}}) {
    const auto folder = sys::TemporaryDirectory::create("/var/tmp");
    ASSERT_TRUE(folder.ok());
    sys::SystemFileSystem files;
    const auto store = open_store(
        files,
        {.directory = folder->path(), .capacity_bytes = gib * 1024 * kMiB, .direct = direct});
    ASSERT_TRUE(put_block(*store, 1).ok());
    EXPECT_EQ(store->figures().bytes,
              std::max(256 * kMiB, gib * 1024 * kMiB / (direct ? 256 : 512)));
  }
}

}  // namespace
}  // namespace towpath::kv
