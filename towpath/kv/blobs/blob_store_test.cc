#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <towpath/core/format.h>
#include <towpath/kv/blobs/blob_store.h>
#include <towpath/sys/file.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;
using ::testing::HasSubstr;

Bytes saved_bytes(std::size_t size, std::uint8_t seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed + i / 251);
  return bytes;
}

class BlobStoreTest : public ::testing::Test {
 protected:
  BlobStore open() { return BlobStore::open(files_, "/blobs").value(); }
  /// What comes back, or why not.
  Result<Bytes> restore(const BlobStore& store, const BlobName& blob) {
    TOWPATH_TRY(const BlobInfo info, store.find(blob.name));
    Bytes bytes(info.length, std::byte{9});
    const Status status = store.restore(blob, bytes);
    if (status.ok()) return bytes;
    EXPECT_EQ(bytes, Bytes(bytes.size())) << "a failed restore leaves zeros";
    return status;
  }
  void spoil(const std::string& path, std::uint64_t offset) {
    auto file = files_.open(path, {.writable = true}).value();
    Bytes byte(1);
    ASSERT_TRUE(file->read_at(byte, offset).ok());
    byte[0] ^= std::byte{1};
    ASSERT_TRUE(file->write_at(byte, offset).ok());
  }
  void cut(const std::string& path, std::uint64_t size) {
    ASSERT_TRUE(files_.open(path, {.writable = true}).value()->resize(size).ok());
  }

  sys::MemoryFileSystem files_;
};

TEST_F(BlobStoreTest, what_was_saved_comes_back_after_a_crash) {
  const Bytes bytes = saved_bytes(9'000'000), other = saved_bytes(3, 5);
  ASSERT_TRUE(open().save({"chat/1 \xff", "llama-8b"}, bytes).ok());
  ASSERT_TRUE(open().save({"empty", ""}, {}).ok());
  files_.crash();
  BlobStore store = open();
  EXPECT_EQ(restore(store, {"chat/1 \xff", "llama-8b"}).value(), bytes);
  EXPECT_TRUE(restore(store, {"empty", ""}).value().empty());
  ASSERT_TRUE(store.save({"empty", ""}, other).ok());
  EXPECT_EQ(restore(store, {"empty", ""}).value(), other);
  EXPECT_TRUE(store.verify("chat/1 \xff").ok());
  EXPECT_EQ(store.list().value().size(), 2U);
  ASSERT_TRUE(store.remove("empty").ok());
  EXPECT_EQ(store.remove("empty").code(), Code::not_found);
  EXPECT_EQ(store.find("empty").code(), Code::not_found);
}

TEST_F(BlobStoreTest, a_fifo_where_a_blob_belongs_is_an_error_and_is_not_waited_for) {
  const sys::TemporaryDirectory folder = sys::TemporaryDirectory::create().value();
  sys::SystemFileSystem files;
  BlobStore store = BlobStore::open(files, folder.path()).value();
  ASSERT_EQ(::mkfifo(folder.file("a.blob").c_str(), 0600), 0);
  ASSERT_TRUE(store.save({"b", ""}, {}).ok());
  const auto entries = store.list().value();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].status.code(), Code::denied);
  EXPECT_TRUE(entries[1].status.ok());
  EXPECT_EQ(store.verify("a").code(), Code::denied);
}

TEST_F(BlobStoreTest, a_list_reports_what_a_crash_left_and_every_blob_whatever_it_is_called) {
  BlobStore store = open();
  ASSERT_TRUE(store.save({"unfinished-symphony", "schubert"}, saved_bytes(10)).ok());
  ASSERT_TRUE(files_.open("/blobs/unfinished-abcdef", {.writable = true, .create = true}).ok());
  const auto entries = store.list().value();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].file, "unfinished-abcdef");
  EXPECT_EQ(entries[0].status.code(), Code::corrupt);
  EXPECT_EQ(entries[1].info.blob.name, "unfinished-symphony") << entries[1].status.to_string();
}

TEST_F(BlobStoreTest, a_save_that_fails_or_dies_at_any_call_leaves_the_old_blob_or_the_new) {
  const Bytes first = saved_bytes(10'000), second = saved_bytes(20'000, 2);
  for (const FileOp op :
       {FileOp::open, FileOp::write, FileOp::sync, FileOp::rename, FileOp::sync_directory})
    for (const bool dies : {false, true})
      for (std::uint64_t nth = 1; nth <= 3; ++nth) {
        ASSERT_TRUE(open().save({"state", ""}, first).ok());
        files_.inject({.on = op, .nth = nth, .effect = FileEffect::fail, .errno_value = EIO});
        const Status saved = open().save({"state", ""}, second);
        files_.heal();
        if (dies) files_.crash();
        const Result<Bytes> found = restore(open(), {"state", ""});
        ASSERT_TRUE(found.ok()) << found.status().to_string();
        EXPECT_TRUE(*found == second || (!saved.ok() && *found == first))
            << static_cast<int>(op) << " " << nth << " " << saved.to_string();
      }
}

TEST_F(BlobStoreTest, a_disk_that_lies_about_a_sync_costs_the_blob_and_reports_no_lie) {
  const Bytes bytes = saved_bytes(10'000);
  files_.inject({.on = FileOp::sync, .effect = FileEffect::forget});
  ASSERT_TRUE(open().save({"state", ""}, bytes).ok());
  files_.crash();
  const Result<Bytes> found = restore(open(), {"state", ""});
  EXPECT_TRUE(found.code() == Code::corrupt || found.code() == Code::not_found)
      << found.status().to_string();
}

TEST_F(BlobStoreTest, torn_flipped_and_foreign_files_are_reported_by_name) {
  const Bytes bytes = saved_bytes(10'000);
  const std::string path = "/blobs/state.blob";
  const auto reported = [&](auto&& damage) {
    EXPECT_TRUE(open().save({"state", "a"}, bytes).ok());
    damage();
    const Status status = restore(open(), {"state", "a"}).status();
    EXPECT_EQ(status.code(), Code::corrupt) << status.to_string();
    EXPECT_EQ(open().verify("state").code(), Code::corrupt);
    return status.to_string();
  };
  EXPECT_THAT(reported([&] { cut(path, 4096 + 5000); }),
              HasSubstr("torn: it has 5000 of 10000 bytes"));
  EXPECT_THAT(reported([&] { cut(path, 100); }), HasSubstr("torn: it has 100 bytes and no header"));
  EXPECT_THAT(reported([&] { cut(path, 20'000); }), HasSubstr("too long"));
  EXPECT_THAT(reported([&] { spoil(path, 40); }), HasSubstr("damaged header"));
  EXPECT_THAT(reported([&] { spoil(path, 4096 + 9'999); }), HasSubstr("not what was saved"));
  EXPECT_THAT(reported([&] {
                ASSERT_TRUE(open().save({"other", "a"}, bytes).ok());
                ASSERT_TRUE(files_.rename({"/blobs/other.blob", path}).ok());
              }),
              HasSubstr("is the blob 'other'"));
}

TEST_F(BlobStoreTest, a_blob_is_restored_for_what_it_was_saved_for) {
  const Bytes bytes = saved_bytes(100);
  BlobStore store = open();
  ASSERT_TRUE(store.save({"state", "llama-8b q4"}, bytes).ok());
  const Status other = restore(store, {"state", "llama-70b"}).status();
  EXPECT_EQ(other.code(), Code::invalid_argument);
  EXPECT_THAT(other.to_string(), HasSubstr("is of 'llama-8b q4', not of 'llama-70b'"));
  Bytes room(99);
  EXPECT_EQ(store.restore({"state", "llama-8b q4"}, room).code(), Code::invalid_argument);
  EXPECT_EQ(store.save({"", ""}, bytes).code(), Code::invalid_argument);
  EXPECT_EQ(store.save({std::string(67, '\xff'), ""}, bytes).code(), Code::invalid_argument);
}

TEST_F(BlobStoreTest, a_full_disk_is_reported_and_leaves_nothing_half_written) {
  ASSERT_TRUE(open().save({"state", ""}, saved_bytes(1000)).ok());
  files_.inject({.on = FileOp::write, .nth = 2, .effect = FileEffect::fail, .errno_value = ENOSPC});
  EXPECT_EQ(open().save({"state", ""}, saved_bytes(50'000)).code(), Code::exhausted);
  EXPECT_EQ(files_.list("/blobs").value().size(), 1U);
  EXPECT_EQ(restore(open(), {"state", ""}).value(), saved_bytes(1000));
}

}  // namespace
}  // namespace towpath::kv
