// Which of a drive's two tables is there after several lives, and a loss of power.
#include <utility>

#include <gtest/gtest.h>

#include <towpath/kv/disk/drive_files.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;

class DriveTablesTest : public ::testing::Test {
 protected:
  void make_drive() {
    disk_ = std::make_unique<sys::MemoryFileSystem>();
    const auto file = disk_->open("/drive", {.writable = true, .create = true});
    ASSERT_TRUE((*file)->resize(10 * kMiB).ok());
    ASSERT_TRUE((*file)->sync().ok() && disk_->sync_directory("/").ok());
  }
  std::shared_ptr<DriveFiles> open() {
    auto drive = DriveFiles::open(*disk_, "/drive", 7);
    EXPECT_TRUE(drive.ok()) << drive.status().to_string();
    return drive.ok() ? *std::move(drive) : nullptr;
  }
  Status name(DriveFiles& drive, const std::string& file) {
    TOWPATH_TRY(drive.open("/drive/" + file, {.writable = true, .create = true}));
    return drive.sync_directory("/drive");
  }

  std::unique_ptr<sys::MemoryFileSystem> disk_;
};

/// A sync that fails leaves its table to the next one, or in the page cache alone.
class KilledLifeTest : public DriveTablesTest, public ::testing::WithParamInterface<FileEffect> {};
INSTANTIATE_TEST_SUITE_P(Syncs, KilledLifeTest,
                         ::testing::Values(FileEffect::fail, FileEffect::lose));

// The first life dies in the sync of its second table, the machine in that of the third, with any
// of what was written on the disk.
TEST_P(KilledLifeTest, a_table_that_it_left_unsynced_costs_none_before_it) {
  for (unsigned surviving = 0; surviving < 4; ++surviving) {
    make_drive();
    auto drive = open();
    ASSERT_TRUE(name(*drive, "one").ok());
    disk_->inject({.on = FileOp::sync, .effect = GetParam()});
    ASSERT_FALSE(name(*drive, "two").ok());
    drive.reset();
    drive = open();
    ASSERT_EQ(drive->list("/drive")->size(), GetParam() == FileEffect::fail ? 2U : 1U);
    disk_->inject({.on = FileOp::write, .effect = FileEffect::torn, .bytes = 60});
    disk_->inject({.on = FileOp::sync});
    ASSERT_FALSE(name(*drive, "three").ok());
    unsigned page = 0;
    disk_->crash([&] { return (surviving >> page++ & 1U) != 0; });
    drive.reset();
    drive = open();
    ASSERT_TRUE(drive && drive->kind_of("/drive/one") == sys::PathKind::file) << surviving;
  }
}

TEST_P(KilledLifeTest, a_label_that_it_left_unsynced_is_on_the_drive_before_any_name) {
  for (std::uint64_t sync = 1; sync <= 4; ++sync) {
    make_drive();
    disk_->inject({.on = FileOp::sync, .nth = sync, .effect = GetParam()});
    ASSERT_FALSE(DriveFiles::open(*disk_, "/drive", 6).ok()) << sync;
    auto drive = open();
    ASSERT_TRUE(drive && name(*drive, "one").ok()) << sync;
    drive.reset();
    disk_->crash();
    drive = open();
    ASSERT_TRUE(drive && drive->kind_of("/drive/one") == sys::PathKind::file) << sync;
  }
}

// The index that the drive's table names says alone that a block was removed. The next one gets a
// name, but no table: the one after it must not be written over the first.
TEST_F(DriveTablesTest, an_index_is_not_written_over_the_one_that_the_table_names) {
  make_drive();
  auto drive = open();
  const BlockStoreOptions options{.directory = "/drive/blocks"};
  auto store = testing::open_store(*drive, options);
  ASSERT_TRUE(testing::put_block(*store, 1).ok() && testing::put_block(*store, 2).ok());
  ASSERT_TRUE(store->checkpoint().ok());
  disk_->inject({.on = FileOp::write});
  ASSERT_FALSE(store->remove(1).ok());
  ASSERT_TRUE(store->sync().ok()) << "acknowledged, by an index";
  ASSERT_TRUE(testing::put_block(*store, 3).ok() && store->sync().ok());
  disk_->inject({.on = FileOp::sync, .nth = 2, .times = UINT64_MAX / 2});
  ASSERT_FALSE(store->checkpoint().ok());
  disk_->inject({.on = FileOp::write, .effect = FileEffect::stop, .bytes = 100});
  disk_->inject({.on = FileOp::write, .nth = 2});
  ASSERT_FALSE(store->checkpoint().ok());
  disk_->crash([is_table = true]() mutable { return !std::exchange(is_table, false); });
  store.reset();
  drive.reset();
  disk_->heal();
  drive = open();
  store = testing::open_store(*drive, options);
  EXPECT_TRUE(store->figures().reported.empty()) << store->figures().reported[0];
  EXPECT_FALSE(store->find(1)) << "its removal was acknowledged";
  EXPECT_TRUE(testing::get_block(*store, 2).ok());
}

TEST_F(DriveTablesTest, a_file_is_not_written_over_while_the_table_names_it) {
  make_drive();
  auto drive = open();
  ASSERT_TRUE(name(*drive, "one").ok() && name(*drive, "two").ok());
  const auto write = [&](const std::string& file, const std::string& words) {
    TOWPATH_TRY(const auto opened,
                drive->open("/drive/" + file, {.writable = true, .create = true}));
    TOWPATH_TRY(sys::write_exactly(*opened, as_bytes(words), 0));
    return opened->sync();
  };
  ASSERT_TRUE(write("one", "of one").ok() && write("two", "of two").ok());
  ASSERT_TRUE(drive->remove("/drive/one").ok());
  ASSERT_TRUE(drive->rename({"/drive/two", "/drive/three"}).ok());
  ASSERT_TRUE(write("two", "anew").ok());
  ASSERT_TRUE(drive->rename({"/drive/two", "/drive/three"}).ok());
  const auto in_use = drive->open("/drive", {.directory = true});  // so nothing of it goes
  for (std::uint64_t i = 3; i < drive->label().slots; ++i)
    ASSERT_TRUE(write(cat("more", i), "of more").ok()) << i;
  disk_->inject({.on = FileOp::sync, .times = UINT64_MAX / 2});
  EXPECT_EQ(write("last", "of last").code(), Code::io_error) << "the two that went are not free";
  disk_->heal();
  disk_->crash();
  drive.reset();
  drive = open();
  for (const std::string file : {"one", "two"}) {
    std::string found(6, ' ');
    const auto opened = drive->open("/drive/" + file, {});
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    ASSERT_TRUE(sys::read_exactly(**opened, std::as_writable_bytes(std::span(found)), 0).ok());
    EXPECT_EQ(found, "of " + file);
  }
}

TEST_F(DriveTablesTest, what_lost_its_name_gives_its_slot_when_no_other_is_free) {
  make_drive();
  const auto drive = open();
  const auto in_use = drive->open("/drive", {.directory = true});
  for (std::uint64_t i = 0; i < drive->label().slots; ++i) ASSERT_TRUE(name(*drive, cat(i)).ok());
  ASSERT_TRUE(drive->remove("/drive/0").ok());
  EXPECT_TRUE(drive->open("/drive/more", {.writable = true, .create = true}).ok());
  EXPECT_EQ(drive->open("/drive/0", {.writable = true, .create = true}).code(), Code::exhausted);
}

// A checkpoint gave the index its name, and the table could not be written, then and when the store
// is opened again, which writes to a slot to see whether it can.
TEST_F(DriveTablesTest, an_opening_does_not_write_over_the_index_that_the_table_names) {
  make_drive();
  auto drive = open();
  const BlockStoreOptions options{.directory = "/drive/blocks"};
  auto store = testing::open_store(*drive, options);
  ASSERT_TRUE(testing::put_block(*store, 1).ok() && testing::put_block(*store, 2).ok());
  ASSERT_TRUE(store->checkpoint().ok());
  disk_->inject({.on = FileOp::write});
  ASSERT_FALSE(store->remove(1).ok());
  ASSERT_TRUE(store->sync().ok()) << "acknowledged, by an index";
  disk_->inject({.on = FileOp::sync, .nth = 2, .times = UINT64_MAX / 2});
  ASSERT_FALSE(store->checkpoint().ok());
  store.reset();
  store = testing::open_store(*drive, options);
  disk_->crash([is_table = true]() mutable { return !std::exchange(is_table, false); });
  store.reset();
  drive.reset();
  disk_->heal();
  drive = open();
  store = testing::open_store(*drive, options);
  EXPECT_TRUE(store->figures().reported.empty()) << store->figures().reported[0];
  EXPECT_FALSE(store->find(1)) << "its removal was acknowledged";
  EXPECT_TRUE(testing::get_block(*store, 2).ok());
}

}  // namespace
}  // namespace towpath::kv
