#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/memory_file_system.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MemoryFileSystemTest : public ::testing::Test {
 protected:
  std::unique_ptr<File> make(const std::string& path, std::string_view content = {}) {
    auto file = disk_.open(path, {.writable = true, .create = true});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_TRUE(write_exactly(**file, as_bytes(content), 0).ok());
    return std::move(*file);
  }
  std::string content(const std::string& path) {
    auto file = disk_.open(path, {});
    if (!file.ok()) return "none";
    Bytes bytes(100);
    bytes.resize((*file)->read_at(bytes, 0).value());
    return std::string(as_text(bytes));
  }

  MemoryFileSystem disk_;
};

TEST_F(MemoryFileSystemTest, the_nth_call_of_a_kind_fails_and_the_next_does_not) {
  auto file = make("f");
  disk_.inject({.on = FileOp::write, .nth = 2, .errno_value = ENOSPC});
  EXPECT_TRUE(file->write_at(as_bytes("a"), 0).ok());
  EXPECT_EQ(file->write_at(as_bytes("b"), 0).code(), Code::exhausted);
  EXPECT_EQ(content("f"), "a");
  EXPECT_TRUE(file->write_at(as_bytes("c"), 0).ok());
  EXPECT_EQ(disk_.calls(FileOp::write), 3u);
}

TEST_F(MemoryFileSystemTest, faults_last_as_often_as_reported_and_only_on_their_path) {
  auto good = make("good", "x");
  auto bad = make("bad", "x");
  disk_.inject({.on = FileOp::read, .times = 2, .path_part = "bad"});
  Bytes byte(1);
  EXPECT_TRUE(good->read_at(byte, 0).ok());
  EXPECT_EQ(bad->read_at(byte, 0).code(), Code::io_error);
  EXPECT_EQ(bad->read_at(byte, 0).code(), Code::io_error);
  EXPECT_TRUE(bad->read_at(byte, 0).ok());
}

TEST_F(MemoryFileSystemTest, every_kind_of_call_can_fail) {
  auto file = make("f");
  for (const FileOp op :
       {FileOp::open, FileOp::read, FileOp::write, FileOp::sync, FileOp::resize,
        FileOp::preallocate, FileOp::remove, FileOp::rename, FileOp::sync_directory})
    disk_.inject({.on = op, .errno_value = EACCES});
  Bytes byte(1);
  EXPECT_EQ(disk_.open("f", {}).code(), Code::denied);
  EXPECT_EQ(file->read_at(byte, 0).code(), Code::denied);
  EXPECT_EQ(file->write_at(byte, 0).code(), Code::denied);
  EXPECT_EQ(file->sync().code(), Code::denied);
  EXPECT_EQ(file->resize(1).code(), Code::denied);
  EXPECT_EQ(file->preallocate(1).code(), Code::denied);
  EXPECT_EQ(disk_.rename({"f", "g"}).code(), Code::denied);
  EXPECT_EQ(disk_.remove("f").code(), Code::denied);
  EXPECT_EQ(disk_.sync_directory(".").code(), Code::denied);
}

TEST_F(MemoryFileSystemTest, short_calls_are_reported_and_carried_on) {
  auto file = make("f");
  disk_.inject({.on = FileOp::write, .effect = FileEffect::stop, .bytes = 2});
  EXPECT_EQ(*file->write_at(as_bytes("abcd"), 0), 2u);
  disk_.inject({.on = FileOp::write, .effect = FileEffect::stop, .bytes = 1});
  EXPECT_TRUE(write_exactly(*file, as_bytes("wxyz"), 0).ok());
  EXPECT_EQ(content("f"), "wxyz");
  disk_.inject({.on = FileOp::read, .times = 3, .effect = FileEffect::stop, .bytes = 1});
  Bytes into(4);
  EXPECT_TRUE(read_exactly(*file, into, 0).ok());
  EXPECT_EQ(as_text(into), "wxyz");
}

TEST_F(MemoryFileSystemTest, a_disk_that_takes_nothing_ends_a_write) {
  auto file = make("f");
  disk_.inject({.on = FileOp::write, .effect = FileEffect::stop, .bytes = 0});
  const Status status = write_exactly(*file, as_bytes("abcd"), 0);
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_THAT(status.to_string(), HasSubstr("only 0 of them"));
}

TEST_F(MemoryFileSystemTest, a_failure_in_the_middle_keeps_its_cause) {
  auto file = make("f", "abcd");
  disk_.inject({.on = FileOp::read, .effect = FileEffect::stop, .bytes = 3});
  disk_.inject({.on = FileOp::read, .nth = 2});
  Bytes into(4);
  const Status status = read_exactly(*file, into, 0);
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_THAT(status.to_string(), HasSubstr("stopped after 3"));
  EXPECT_THAT(status.cause().to_string(), HasSubstr("EIO"));
}

TEST_F(MemoryFileSystemTest, a_torn_write_claims_all_and_lands_a_part) {
  auto file = make("f", "....");
  disk_.inject({.on = FileOp::write, .effect = FileEffect::torn, .bytes = 1});
  EXPECT_EQ(*file->write_at(as_bytes("abcd"), 0), 4u);
  EXPECT_EQ(content("f"), "a...");
}

TEST_F(MemoryFileSystemTest, one_bit_flips_on_the_way_in_or_out) {
  auto file = make("f", "aaaa");
  disk_.inject({.on = FileOp::read, .effect = FileEffect::flip_bit, .bit = 9});
  EXPECT_EQ(content("f"), "acaa");
  EXPECT_EQ(content("f"), "aaaa") << "the file itself is whole";
  disk_.inject({.on = FileOp::write, .effect = FileEffect::flip_bit, .bit = 1});
  EXPECT_EQ(*file->write_at(as_bytes("aaaa"), 0), 4u);
  EXPECT_EQ(content("f"), "caaa");
}

TEST_F(MemoryFileSystemTest, a_full_disk_takes_what_fits_and_then_nothing) {
  auto file = make("f", "ab");
  disk_.set_capacity(5);
  EXPECT_EQ(*disk_.available_bytes("/"), 3u);
  EXPECT_EQ(*file->write_at(as_bytes("0123456789"), 1), 4u);
  EXPECT_EQ(file->write_at(as_bytes("x"), 5).code(), Code::exhausted);
  EXPECT_EQ(file->resize(6).code(), Code::exhausted);
  EXPECT_EQ(file->preallocate(6).code(), Code::exhausted);
  EXPECT_EQ(content("f"), "a0123");
  EXPECT_TRUE(file->write_at(as_bytes("y"), 0).ok()) << "old bytes can be written over";
  EXPECT_TRUE(disk_.remove("f").ok());
  EXPECT_EQ(*disk_.available_bytes("/"), 5u);
}

TEST_F(MemoryFileSystemTest, a_crash_loses_unsynced_bytes) {
  auto file = make("f", "safe");
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  ASSERT_TRUE(file->write_at(as_bytes("lost, and more"), 0).ok());
  disk_.crash();
  EXPECT_EQ(content("f"), "safe");
  EXPECT_EQ(file->size().code(), Code::not_ready);
  EXPECT_EQ(file->write_at(as_bytes("x"), 0).code(), Code::not_ready);
}

TEST_F(MemoryFileSystemTest, a_crash_loses_unsynced_names) {
  ASSERT_TRUE(make("old", "1")->sync().ok());
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  ASSERT_TRUE(make("new", "2")->sync().ok());
  ASSERT_TRUE(disk_.rename({.source = "old", .target = "moved"}).ok());
  disk_.crash();
  EXPECT_EQ(content("new"), "none");
  EXPECT_EQ(content("moved"), "none");
  EXPECT_EQ(content("old"), "1");
}

TEST_F(MemoryFileSystemTest, names_that_a_crash_left_are_there_after_the_next_one) {
  ASSERT_TRUE(make("old", "1")->sync().ok());
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  ASSERT_TRUE(disk_.rename({.source = "old", .target = "moved"}).ok());
  disk_.crash([] { return true; });
  disk_.crash();
  EXPECT_EQ(content("old"), "none");
  EXPECT_EQ(content("moved"), "1");
}

TEST_F(MemoryFileSystemTest, a_sync_that_lies_saves_nothing) {
  auto file = make("f", "gone");
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  disk_.inject({.on = FileOp::sync, .effect = FileEffect::forget});
  EXPECT_TRUE(file->sync().ok());
  disk_.crash();
  EXPECT_EQ(content("f"), "");
}

TEST_F(MemoryFileSystemTest, a_failed_write_back_is_reported_once_to_each_opening) {
  const auto first = make("f", "safe");
  ASSERT_TRUE(first->sync().ok());
  const auto second = make("f", "lost");
  disk_.fail_write_back("f");
  EXPECT_EQ(content("f"), "safe");
  EXPECT_EQ(second->sync().code(), Code::io_error);
  EXPECT_TRUE(second->sync().ok());
  EXPECT_EQ(first->sync().code(), Code::io_error);
  EXPECT_TRUE(first->sync().ok());
}

TEST_F(MemoryFileSystemTest, what_a_sync_lost_is_read_until_the_cache_is_dropped_and_never_saved) {
  const std::string page(4096, 'a');
  const auto file = make("f", page + page + page);
  ASSERT_TRUE(file->sync().ok());
  const auto other = disk_.open("f", {}).value();
  ASSERT_TRUE(write_exactly(*file, as_bytes("lost"), 0).ok());
  ASSERT_TRUE(write_exactly(*file, as_bytes("anew"), 4096).ok());
  ASSERT_TRUE(write_exactly(*file, as_bytes("kept"), 8192).ok());
  disk_.inject({.on = FileOp::sync, .effect = FileEffect::lose, .bytes = 8192});
  EXPECT_EQ(file->sync().code(), Code::io_error);
  EXPECT_EQ(other->sync().code(), Code::io_error) << "each opening learns of it";
  EXPECT_EQ(content("f").substr(0, 4), "lost");
  ASSERT_TRUE(write_exactly(*file, as_bytes("b"), 4096 + 4).ok());  // all of its page is written
  ASSERT_TRUE(sync_and_drop_cache(*file, {.begin = 4096}).ok());
  EXPECT_EQ(content("f").substr(0, 4), "lost") << "it lies before that";
  ASSERT_TRUE(sync_and_drop_cache(*file).ok());
  Bytes found(3 * 4096);
  ASSERT_TRUE(read_exactly(*file, found, 0).ok());
  EXPECT_EQ(as_text(found).substr(0, 5), "aaaaa");
  EXPECT_EQ(as_text(found).substr(4096, 6), "anewba");
  EXPECT_EQ(as_text(found).substr(8192, 5), "kepta");
}

TEST_F(MemoryFileSystemTest, what_a_sync_lost_is_gone_after_a_crash) {
  const auto file = make("f", "lost");
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  disk_.inject({.on = FileOp::sync, .effect = FileEffect::lose});
  EXPECT_EQ(file->sync().code(), Code::io_error);
  EXPECT_TRUE(file->sync().ok());
  disk_.crash([] { return true; });
  EXPECT_EQ(content("f"), std::string(4, '\0')) << "a hole";
}

TEST_F(MemoryFileSystemTest, open_files_outlive_the_disk_object) {
  std::unique_ptr<File> file;
  {
    MemoryFileSystem other;
    file = std::move(other.open("f", {.writable = true, .create = true}).value());
  }
  EXPECT_TRUE(file->write_at(as_bytes("x"), 0).ok());
}

TEST_F(MemoryFileSystemTest, a_crash_may_leave_any_of_the_pages_that_were_not_synced) {
  auto file = make("f", std::string(4096, 'a'));
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(disk_.sync_directory(".").ok());
  ASSERT_TRUE(write_exactly(*file, as_bytes(std::string(4096 * 2 + 10, 'b')), 4096).ok());
  int asked = 0;
  disk_.crash([&] { return ++asked == 3; });
  EXPECT_EQ(asked, 3) << "what is synced is not in question";
  auto again = disk_.open("f", {});
  ASSERT_TRUE(again.ok());
  Bytes bytes(4096 * 3 + 10);
  ASSERT_TRUE(read_exactly(**again, bytes, 0).ok());
  EXPECT_EQ(as_text(bytes).substr(4095, 2), std::string_view("a\0", 2)) << "a hole";
  EXPECT_EQ(as_text(bytes).substr(4096 * 3), std::string(10, 'b'));
}

}  // namespace
}  // namespace towpath::sys
