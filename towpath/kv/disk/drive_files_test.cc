// A drive as the place of stores: in memory, where it loses what a disk may lose; as a real file;
// and as a real block device, where this machine makes one.
#include <csignal>
#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/kv/disk/drive_files.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/run/file_engines.h>
#include <towpath/sys/file_device.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::kv {
namespace {

constexpr const char* kDrive = "/drive";
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kDriveBytes = 10 * kMiB;  // 9 slots

void write_at(sys::FileSystem& files, std::uint64_t offset, const std::string& text) {
  auto file = files.open(kDrive, {.writable = true});
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(sys::write_exactly(**file, as_bytes(text), offset).ok());
}

class DriveFilesTest : public ::testing::Test {
 protected:
  DriveFilesTest() { make_drive(kDriveBytes); }
  void make_drive(std::uint64_t bytes) {
    auto file = disk_.open(kDrive, {.writable = true, .create = true, .truncate = true});
    ASSERT_TRUE((*file)->resize(bytes).ok());
    ASSERT_TRUE((*file)->sync().ok());
    ASSERT_TRUE(disk_.sync_directory("/").ok());
  }
  Result<std::shared_ptr<DriveFiles>> try_open() { return DriveFiles::open(disk_, kDrive, 7); }
  std::shared_ptr<DriveFiles> open() {
    auto drive = try_open();
    EXPECT_TRUE(drive.ok()) << drive.status().to_string();
    return drive.ok() ? *std::move(drive) : nullptr;
  }

  sys::MemoryFileSystem disk_;
};

TEST_F(DriveFilesTest, names_and_bytes_that_were_synced_are_there_after_a_crash) {
  {
    const auto drive = open();
    auto kept = drive->open("/drive/a/kept", {.writable = true, .create = true});
    ASSERT_TRUE(kept.ok());
    ASSERT_TRUE(sys::write_exactly(**kept, as_bytes("bytes"), 100).ok());
    ASSERT_TRUE(drive->sync_directory("/drive/a").ok());
    ASSERT_TRUE(drive->open("/drive/a/lost", {.writable = true, .create = true}).ok());
  }
  disk_.crash();
  const auto drive = open();
  EXPECT_EQ(*drive->list("/drive/a"), std::vector<std::string>{"kept"});
  auto kept = drive->open("/drive/a/kept", {});
  std::string found(5, ' ');
  ASSERT_TRUE(sys::read_exactly(**kept, std::as_writable_bytes(std::span(found)), 100).ok());
  EXPECT_EQ(found, "bytes");
}

TEST_F(DriveFilesTest, a_slot_is_not_given_away_while_its_file_is_open) {
  const auto drive = open();
  auto gone = drive->open("/drive/gone", {.writable = true, .create = true});
  ASSERT_TRUE(sys::write_exactly(**gone, as_bytes("still here"), 0).ok());
  ASSERT_TRUE(drive->remove("/drive/gone").ok());
  for (std::uint64_t i = 0; i + 1 < drive->label().slots; ++i) {
    auto file = drive->open(cat("/drive/", i), {.writable = true, .create = true});
    ASSERT_TRUE(file.ok()) << i;
    ASSERT_TRUE(sys::write_exactly(**file, as_bytes("new words."), 0).ok());
  }
  const auto in_use = drive->open("/drive", {.directory = true});  // so nothing of it goes
  EXPECT_EQ(drive->open("/drive/more", {.writable = true, .create = true}).code(), Code::exhausted);
  std::string found(10, ' ');
  ASSERT_TRUE(sys::read_exactly(**gone, std::as_writable_bytes(std::span(found)), 0).ok());
  EXPECT_EQ(found, "still here");
  gone = error(Code::not_found, "closed");
  EXPECT_TRUE(drive->open("/drive/more", {.writable = true, .create = true}).ok());
}

TEST_F(DriveFilesTest, a_file_stays_in_its_slot) {
  const auto drive = open();
  auto first = drive->open("/drive/first", {.writable = true, .create = true});
  auto second = drive->open("/drive/second", {.writable = true, .create = true});
  const std::uint64_t slot = drive->label().slot_bytes;
  EXPECT_EQ(*(*first)->write_at(as_bytes("0123456789"), slot - 4), 4U);
  EXPECT_EQ((*first)->write_at(as_bytes("x"), slot).code(), Code::exhausted);
  Bytes bytes(16);
  EXPECT_EQ(*(*second)->read_at(bytes, 0), 16U);
  EXPECT_EQ(bytes, Bytes(16));
  EXPECT_EQ(*(*first)->read_at(bytes, slot - 4), 4U);

  sys::FileRequest beyond{.kind = sys::FileIo::Kind::write,
                          .file = *std::move(first),
                          .offset = slot - 8,
                          .parts = {sys::IoPart::of(bytes)}};
  EXPECT_EQ(sys::perform(beyond).code(), Code::exhausted);
}

TEST_F(DriveFilesTest, folders_of_others_go_when_no_slot_is_free) {
  auto drive = open();
  const auto path_of = [](std::uint64_t i) {
    return i == 0 ? std::string("/drive/old/index") : cat("/drive/old/", Segment::file_name(i));
  };
  for (std::uint64_t i = 0; i < drive->label().slots; ++i)
    ASSERT_TRUE(drive->open(path_of(i), {.writable = true, .create = true}).ok());
  ASSERT_TRUE(drive->sync_directory("/drive").ok());
  drive.reset();
  drive = open();
  const auto new_one = drive->open("/drive/new", {.directory = true});
  ASSERT_TRUE(drive->open("/drive/new/segment-1", {.writable = true, .create = true}).ok());
  const std::vector<std::string> left = *drive->list("/drive/old");
  EXPECT_EQ(left.size(), drive->label().slots - 1);
  EXPECT_EQ(left.front(), "index") << "without which all segments are read when it is opened";
  EXPECT_EQ(left[1], Segment::file_name(2)) << "the oldest goes";
  const auto old_one = drive->open("/drive/old", {.directory = true});
  EXPECT_EQ(drive->open("/drive/new/segment-2", {.writable = true, .create = true}).code(),
            Code::exhausted);
}

// What is on a drive that is not ours stays as it is, wherever it begins.
TEST_F(DriveFilesTest, a_drive_with_something_else_on_it_is_refused_untouched) {
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1080}, std::uint64_t{65600},
                                 kDriveBytes - 512, kDriveBytes - 700'000}) {
    make_drive(kDriveBytes);
    write_at(disk_, at, "a file system");
    const std::uint64_t writes = disk_.calls(sys::FileOp::write);
    const Status refused = try_open().status();
    EXPECT_EQ(refused.code(), Code::denied) << at;
    EXPECT_NE(refused.to_string().find("zeros"), std::string::npos);
    EXPECT_EQ(disk_.calls(sys::FileOp::write), writes) << "it was written to";
  }
  make_drive(kDriveBytes);
  write_at(disk_, kHolderAt, "process 7, opening 8\nand a file system");
  EXPECT_EQ(try_open().code(), Code::denied);
  make_drive(kDriveBytes);
  write_at(disk_, kHolderAt, "process 7, opening 8\n");
  EXPECT_TRUE(try_open().ok()) << "of one that died before it made the drive ours";
  make_drive(kDriveBytes);
  write_at(disk_, kHolderAt, cat("process 7, opening ", std::string(150, 'f'), "\n"));
  EXPECT_TRUE(try_open().ok()) << "whose words were longer";
  make_drive(5 * kMiB);
  EXPECT_EQ(try_open().code(), Code::exhausted);
  make_drive(0);
  EXPECT_EQ(try_open().code(), Code::exhausted);
}

TEST_F(DriveFilesTest, one_of_two_tables_may_be_torn_and_both_are_refused) {
  DriveLabel label;
  {
    const auto drive = open();
    label = drive->label();
    ASSERT_TRUE(drive->open("/drive/one", {.writable = true, .create = true}).ok());
    ASSERT_TRUE(drive->sync_directory("/drive").ok());
    ASSERT_TRUE(drive->open("/drive/two", {.writable = true, .create = true}).ok());
    ASSERT_TRUE(drive->sync_directory("/drive").ok());
  }
  EXPECT_EQ(open()->list("/drive")->size(), 2U);
  write_at(disk_, label.table_at(2) + 40, "torn");
  EXPECT_EQ(*open()->list("/drive"), std::vector<std::string>{"one"});
  write_at(disk_, label.table_at(1) + 40, "torn");
  EXPECT_EQ(try_open().code(), Code::corrupt);
}

TEST_F(DriveFilesTest, any_flipped_bit_of_label_and_tables_is_found) {
  {
    const auto drive = open();
    ASSERT_TRUE(drive->open("/drive/one", {.writable = true, .create = true}).ok());
    ASSERT_TRUE(drive->sync_directory("/drive").ok());
  }
  Bytes page(kDrivePage);
  auto file = disk_.open(kDrive, {.writable = true});
  ASSERT_TRUE(sys::read_exactly(**file, page, 0).ok());
  const auto label = open_drive_label(page, kDriveBytes);
  ASSERT_TRUE(label.ok());
  Bytes table(label->table_bytes());
  ASSERT_TRUE(sys::read_exactly(**file, table, label->table_at(1)).ok());
  const std::vector<DriveFile> one{{"one", 0}};
  for (std::size_t at = 0; at < 120; ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes flipped = page;
      flipped[at] ^= static_cast<std::byte>(1U << bit);
      const auto found = open_drive_label(flipped, kDriveBytes);
      EXPECT_TRUE(!found.ok() || *found == *label) << "label, byte " << at;
      flipped = table;
      flipped[at] ^= static_cast<std::byte>(1U << bit);
      const auto names = open_drive_table(flipped, *label);
      EXPECT_TRUE(!names.ok() || names->files == one) << "table, byte " << at;
    }
  }
  EXPECT_FALSE(open_drive_label(page, kDriveBytes - 2 * kMiB).ok()) << "a shorter drive";
}

TEST(DriveFormatTest, drives_are_divided_by_their_size) {
  constexpr std::uint64_t kGiB = 1024 * kMiB;
  const auto slots_of = [](std::uint64_t bytes) { return divide_drive(bytes).value(); };
  EXPECT_EQ(slots_of(16 * kGiB).slot_bytes, 64 * kMiB);
  EXPECT_EQ(slots_of(100 * kGiB).slot_bytes, 256 * kMiB);
  EXPECT_EQ(slots_of(512 * kGiB).slot_bytes, 512 * kMiB);
  EXPECT_EQ(slots_of(8192 * kGiB).slot_bytes, kGiB);
  EXPECT_EQ(slots_of(kGiB).slot_bytes, 16 * kMiB);
  for (const std::uint64_t bytes : {16 * kMiB, 33 * kMiB, 5 * kGiB + 512, 7777 * kGiB}) {
    const DriveLabel label = slots_of(bytes);
    EXPECT_LE(label.end(), bytes);
    EXPECT_GT(label.end() + 2 * label.slot_bytes, bytes) << "space is left over";
    EXPECT_EQ(*open_drive_label(seal_drive_label(label), bytes), label);
  }
}

// Stores -----------------------------------------------------------------------------------------

constexpr BlockHash kLargeBlocks = 22;  // three slots

Bytes large_block(BlockHash hash) { return Bytes(100'000, static_cast<std::byte>(hash + 1)); }

Status put_large(BlockStore& store, BlockHash hash) {
  const Bytes bytes = large_block(hash);
  return store.put(hash, digest_of(bytes, 5, DigestAlgorithm::xxh3_64), bytes);
}

/// What is wrong fails the test.
Status get_large(BlockStore& store, BlockHash hash) {
  Bytes bytes(large_block(hash).size());
  TOWPATH_TRY(store.get(hash, bytes));
  EXPECT_EQ(bytes, large_block(hash)) << "a wrong block was served: " << hash;
  return {};
}

/// Puts, removes, syncs and checkpoints until the first failure: then the process is dead.
void live(sys::FileSystem& disk, std::set<BlockHash>& acknowledged) {
  auto drive = DriveFiles::open(disk, kDrive, 7);
  if (!drive.ok()) return;
  auto store = BlockStore::open(**drive, {.directory = "/drive/kv", .incarnation = 99});
  if (!store.ok() || !(*store)->read_only().ok()) return;
  std::set<BlockHash> put;
  for (BlockHash hash = 1; hash <= kLargeBlocks; ++hash) {
    if (!put_large(**store, hash).ok()) return;
    put.insert(hash);
    if (hash % 5 == 0) {
      if (!(*store)->sync().ok()) return;
      acknowledged.insert(put.begin(), put.end());
    }
    if (hash % 12 == 0 && !(*store)->checkpoint().ok()) return;
  }
}

void expect_sane(sys::FileSystem& disk, const std::set<BlockHash>& must_be_there,
                 std::uint64_t write) {
  auto drive = DriveFiles::open(disk, kDrive, 8);
  ASSERT_TRUE(drive.ok()) << drive.status().to_string() << ", write " << write;
  auto store = testing::open_store(**drive, {.directory = "/drive/kv"});
  ASSERT_TRUE(store);
  for (BlockHash hash = 1; hash <= kLargeBlocks; ++hash) {
    const Status got = get_large(*store, hash);
    ASSERT_TRUE(got.ok() || !must_be_there.contains(hash))
        << "write " << write << ", block " << hash << ": " << got.to_string();
  }
  ASSERT_TRUE(put_large(*store, 100).ok());
  ASSERT_TRUE(store->sync().ok());
}

/// The disk writes what was not synced in any order, or not at all.
TEST_F(DriveFilesTest, a_store_that_dies_at_any_write_loses_nothing_acknowledged) {
  std::uint64_t random = 1;
  for (const bool some_survive : {false, true}) {
    for (std::uint64_t write = 1;; ++write) {
      disk_.heal();
      make_drive(kDriveBytes);
      const std::uint64_t before = disk_.calls(sys::FileOp::write);
      disk_.inject({.on = sys::FileOp::write, .nth = write, .times = UINT64_MAX / 2});
      std::set<BlockHash> acknowledged;
      live(disk_, acknowledged);
      const bool survived = disk_.calls(sys::FileOp::write) - before < write;
      disk_.heal();
      disk_.crash([&] {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        return some_survive && (random >> 63U) == 0;
      });
      expect_sane(disk_, acknowledged, write);
      if (::testing::Test::HasFatalFailure() || survived) break;
    }
  }
}

TEST_F(DriveFilesTest, a_store_uses_all_of_a_drive_and_gives_up_the_oldest) {
  const auto drive = open();
  auto store = testing::open_store(*drive, {.directory = "/drive/kv"});
  for (BlockHash hash = 1; hash <= 250; ++hash) ASSERT_TRUE(put_large(*store, hash).ok()) << hash;
  ASSERT_TRUE(store->checkpoint().ok());
  EXPECT_FALSE(get_large(*store, 1).ok());
  EXPECT_TRUE(get_large(*store, 250).ok());
  const BlockStore::Figures figures = store->figures();
  EXPECT_EQ(figures.segments, drive->label().slots - 2);
  EXPECT_TRUE(figures.reported.empty());
  store = testing::open_store(*drive, {.directory = "/drive/kv2"});
  ASSERT_TRUE(testing::put_block(*store, 1).ok()) << "it has no store, and can be used by another";
}

TEST_F(DriveFilesTest, a_store_that_was_closed_leaves_all_of_the_drive_to_the_next) {
  const auto drive = open();
  auto store = testing::open_store(*drive, {.directory = "/drive/kv"});
  for (BlockHash hash = 1; hash <= 250; ++hash) ASSERT_TRUE(put_large(*store, hash).ok()) << hash;
  store.reset();
  store = testing::open_store(*drive, {.directory = "/drive/kv2"});
  for (BlockHash hash = 1; hash <= kLargeBlocks; ++hash)
    ASSERT_TRUE(put_large(*store, hash).ok()) << hash;
  ASSERT_TRUE(store->sync().ok());
  EXPECT_EQ(store->figures().segments, 3U);
  EXPECT_TRUE(get_large(*store, 1).ok());
}

// What lies behind the last record is another life's, and costs nothing to pass over.
TEST_F(DriveFilesTest, what_ended_before_the_index_was_written_is_not_looked_through_again) {
  for (int life = 0; life < 4; ++life) {
    const auto drive = open();
    auto store = testing::open_store(*drive, {.directory = "/drive/kv"});
    ASSERT_TRUE(put_large(*store, static_cast<BlockHash>(life)).ok());
    ASSERT_TRUE(store->checkpoint().ok());
  }
  const auto drive = open();
  const std::uint64_t before = disk_.calls(sys::FileOp::read);
  const auto store = testing::open_store(*drive, {.directory = "/drive/kv"});
  EXPECT_EQ(store->figures().blocks, 4U);
  EXPECT_LT(disk_.calls(sys::FileOp::read) - before, 20U) << "four headers, the index, one slot";
  for (BlockHash hash = 0; hash < 4; ++hash) EXPECT_TRUE(get_large(*store, hash).ok()) << hash;
}

TEST_F(DriveFilesTest, stores_of_one_process_share_a_drive_and_each_folder_has_one) {
  for (BlockHash life = 1; life <= 2; ++life) {
    const auto drive = open();
    auto first = testing::open_store(*drive, {.directory = "/drive/first"});
    auto second = testing::open_store(*drive, {.directory = "/drive/second"});
    const auto third = BlockStore::open(*drive, {.directory = "/drive//first/", .incarnation = 5});
    EXPECT_EQ(third.code(), Code::unavailable);
    EXPECT_EQ(get_large(*first, 1).ok(), life == 2);
    EXPECT_EQ(get_large(*second, 2).ok(), life == 2);
    EXPECT_FALSE(get_large(*first, 2).ok());
    if (life == 2) return;
    ASSERT_TRUE(put_large(*first, 1).ok() && first->sync().ok());
    ASSERT_TRUE(put_large(*second, 2).ok() && second->checkpoint().ok());
    disk_.crash();
  }
}

TEST_F(DriveFilesTest, a_store_learns_of_bytes_it_lost_although_another_syncs_the_drive_first) {
  const auto drive = open();
  const auto other = testing::open_store(*drive, {.directory = "/drive/other"});
  const auto store = testing::open_store(*drive, {.directory = "/drive/store"});
  ASSERT_TRUE(put_large(*other, 1).ok() && put_large(*store, 2).ok());
  disk_.fail_write_back(kDrive);
  (void)other->sync();  // it may be blamed, too
  EXPECT_EQ(store->sync().code(), Code::io_error);
  EXPECT_FALSE(store->find(2)) << "it is not acknowledged";
}

// A table names a slot that another store has by now, for a segment of the same number: releases
// before this one wrote to a slot while a table named it, and that one may have come to count.
class OldTableTest : public DriveFilesTest,
                     public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(OldTableTest, it_does_not_lead_to_another_stores_blocks) {
  const std::string first_directory = GetParam().first, second_directory = GetParam().second;
  const auto first_of = [&](sys::FileSystem& drive) {
    return testing::open_store(drive, {.directory = first_directory});
  };
  {
    const auto drive = open();
    const auto first = first_of(*drive);
    for (BlockHash hash = 1; hash <= 50; ++hash) ASSERT_TRUE(put_large(*first, hash).ok());
    ASSERT_TRUE(first->sync().ok());
    for (int i = 0; *drive->available_bytes("/drive") > 0; ++i)
      ASSERT_TRUE(drive->open(cat("/drive/other/", i), {.writable = true, .create = true}).ok());
    ASSERT_TRUE(drive->sync_directory("/drive").ok());
  }
  const auto drive = open();
  auto second = testing::open_store(*drive, {.directory = second_directory});
  ASSERT_TRUE(put_large(*second, 1000).ok() && second->sync().ok());
  second.reset();
  const auto first_segment_in = [](const std::string& directory) {
    return cat(directory, "/", Segment::file_name(1));
  };
  ASSERT_TRUE(
      drive->rename({first_segment_in(second_directory), first_segment_in(first_directory)}).ok());
  const auto first = first_of(*drive);
  ASSERT_EQ(first->figures().reported.size(), 1U);
  EXPECT_NE(first->figures().reported[0].find("it holds a segment of '"), std::string::npos);
  EXPECT_FALSE(first->find(1000)) << "a block of the second store";
  EXPECT_TRUE(get_large(*first, 50).ok());
}

INSTANTIATE_TEST_SUITE_P(Stores, OldTableTest,
                         ::testing::Values(std::pair("/drive/first", "/drive/second"),
                                           std::pair("/drive/first", "/drive")));

// A real file ------------------------------------------------------------------------------------

class RealDriveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::alarm(60);  // what hangs must end
    auto file = files_.open(path_, {.writable = true, .create = true});
    ASSERT_TRUE((*file)->resize(64 * kMiB).ok());
  }
  void TearDown() override { ::alarm(0); }

  sys::SystemFileSystem files_;
  sys::TemporaryDirectory directory_ = *sys::TemporaryDirectory::create();
  const std::string path_ = directory_.file("drive");
};

TEST_F(RealDriveTest, a_file_of_a_fixed_size_is_a_drive_whose_path_names_stores) {
  for (std::uint64_t life = 1; life <= 3; ++life) {
    auto files = store_files(path_ + "/folder");
    ASSERT_TRUE(files.ok()) << files.status().to_string();
    auto opened = BlockStore::open(
        **files, {.directory = path_ + "/folder", .incarnation = life, .direct = true},
        run::open_file_device().value());
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    const std::unique_ptr<BlockStore>& store = *opened;
    for (BlockHash hash = 1; hash < 10 * life; ++hash) {
      const Status got = testing::get_block(*store, hash);
      EXPECT_EQ(got.ok(), hash < 10 * (life - 1)) << hash << ": " << got.to_string();
      ASSERT_TRUE(testing::put_block(*store, hash).ok());
    }
    ASSERT_TRUE(life == 2 ? store->checkpoint().ok() : store->sync().ok());
  }
}

TEST_F(RealDriveTest, another_process_is_refused_by_name_and_takes_over_from_one_that_has_died) {
  int said[2];
  ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
  const pid_t engine = ::fork();
  if (engine == 0) {
    auto files = store_files(path_);
    const pid_t worker = ::fork();
    if (worker == 0) {  // it has the descriptors, and lives on
      (void)::alarm(20);
      for (;;) (void)::pause();
    }
    const pid_t answer = files.ok() ? worker : -1;
    (void)!::write(said[1], &answer, sizeof answer);
    for (;;) (void)::pause();
  }
  pid_t worker = -1;
  ASSERT_EQ(::read(said[0], &worker, sizeof worker), ssize_t{sizeof worker});
  ASSERT_GT(worker, 0);
  const Status refused = store_files(path_).status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.to_string().find(cat("process ", engine)), std::string::npos)
      << refused.to_string();
  ::kill(engine, SIGKILL);
  ASSERT_EQ(::waitpid(engine, nullptr, 0), engine);
  const auto taken = store_files(path_);
  EXPECT_TRUE(taken.ok()) << taken.status().to_string();
  EXPECT_EQ(store_files(path_).code(), Code::unavailable) << "once in one process";
  ::kill(worker, SIGKILL);
  ::close(said[1]);
  EXPECT_EQ(::read(said[0], &worker, sizeof worker), 0) << "until it has ended";
  ::close(said[0]);
  const pid_t other = ::fork();
  if (other == 0) ::_exit(static_cast<int>(store_files(path_).code()));
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(static_cast<Code>(WEXITSTATUS(status)), Code::unavailable) << "it is this one's yet";
}

TEST_F(RealDriveTest, a_path_that_leads_to_another_drive_by_now_is_not_written_to) {
  const auto files = store_files(path_).value();
  ASSERT_TRUE(files_.rename({.source = path_, .target = directory_.file("moved")}).ok());
  SetUp();  // another file
  EXPECT_EQ(files->open(path_ + "/second/index", {.writable = true, .create = true}).code(),
            Code::unavailable);
}

TEST_F(RealDriveTest, a_directory_stays_one) {
  const auto files = store_files(directory_.path() + "/new/folder");
  ASSERT_TRUE(files.ok());
  EXPECT_EQ((*files)->file_slots("/").count, 0U);
}

}  // namespace
}  // namespace towpath::kv
