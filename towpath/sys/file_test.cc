// What every FileSystem promises, run against the kernel's and the one in memory.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      files_ = std::make_unique<MemoryFileSystem>();
      root_ = "/disk";
      ASSERT_TRUE(files_->make_directories(root_).ok());
    } else {
      files_ = std::make_unique<SystemFileSystem>();
      auto directory = TemporaryDirectory::create();
      ASSERT_TRUE(directory.ok());
      directory_ = std::make_unique<TemporaryDirectory>(std::move(*directory));
      root_ = directory_->path();
    }
  }
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  std::unique_ptr<File> make(const std::string& name, std::string_view content = {}) {
    auto file = files_->open(path(name), {.writable = true, .create = true});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    if (!file.ok()) return nullptr;
    EXPECT_TRUE(write_exactly(**file, as_bytes(content), 0).ok());
    return std::move(*file);
  }
  std::string content(const std::string& name) {
    auto file = files_->open(path(name), {});
    if (!file.ok()) return std::string(file.status().message());
    Bytes bytes((*file)->size().value());
    EXPECT_TRUE(read_exactly(**file, bytes, 0).ok());
    return std::string(as_text(bytes));
  }

  std::unique_ptr<TemporaryDirectory> directory_;
  std::unique_ptr<FileSystem> files_;
  std::string root_;
};

INSTANTIATE_TEST_SUITE_P(Both, FileTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "memory" : "kernel"; });

TEST_P(FileTest, a_sync_that_was_started_changes_nothing_that_can_be_read) {
  auto file = make("f", "0123456789");
  file->start_sync();
  EXPECT_TRUE(write_exactly(*file, as_bytes("abc"), 2).ok());
  file->start_sync();
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(content("f"), "01abc56789");
}

TEST_P(FileTest, what_is_written_is_read_and_counts_are_exact) {
  auto file = make("f", "0123456789");
  Bytes into(8);
  EXPECT_EQ(*file->read_at(into, 4), 6u);
  EXPECT_EQ(as_text(into).substr(0, 6), "456789");
  EXPECT_EQ(*file->read_at(into, 10), 0u);
  EXPECT_EQ(*file->read_at(into, 1000), 0u);
  EXPECT_EQ(*file->write_at(as_bytes("abc"), 12), 3u);
  EXPECT_EQ(*file->size(), 15u);
  EXPECT_EQ(content("f"), std::string("0123456789\0\0abc", 15));
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(file->path(), path("f"));
}

TEST_P(FileTest, reading_exactly_reports_where_the_file_ends) {
  auto file = make("f", "0123");
  Bytes into(8);
  const Status status = read_exactly(*file, into, 1);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_THAT(status.to_string(), HasSubstr("8 bytes at offset 1"));
  EXPECT_THAT(status.to_string(), HasSubstr("ends after 3 of them"));
  EXPECT_TRUE(read_exactly(*file, ByteSpan(into).first(3), 1).ok());
  EXPECT_TRUE(read_exactly(*file, {}, 100).ok());
}

TEST_P(FileTest, opening_says_what_stands_against_it) {
  EXPECT_EQ(files_->open(path("none"), {}).code(), Code::not_found);
  EXPECT_EQ(files_->open(path("no/dir"), {.writable = true, .create = true}).code(),
            Code::not_found);
  make("f", "x");
  EXPECT_EQ(files_->open(path("f"), {.writable = true, .create = true, .exclusive = true}).code(),
            Code::already_exists);
  EXPECT_EQ(files_->open(path("f"), {.create = true}).code(), Code::invalid_argument);
  EXPECT_EQ(files_->open(path("f"), {.truncate = true}).code(), Code::invalid_argument);
  EXPECT_EQ(files_->open(path("f"), {.writable = true, .exclusive = true}).code(),
            Code::invalid_argument);
  EXPECT_EQ(files_->open("", {}).code(), Code::invalid_argument);
  EXPECT_EQ(files_->open(std::string("a\0b", 3), {}).code(), Code::invalid_argument);
  EXPECT_EQ(files_->open(root_, {.writable = true}).code(), Code::invalid_argument);
}

TEST_P(FileTest, a_file_opened_for_reading_is_not_written) {
  make("f", "x");
  auto file = files_->open(path("f"), {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->write_at(as_bytes("y"), 0).code(), Code::invalid_argument);
  EXPECT_FALSE((*file)->resize(0).ok());
  EXPECT_EQ(content("f"), "x");
}

TEST_P(FileTest, truncating_resizing_and_preallocating_change_the_size) {
  auto file = make("f", "0123");
  EXPECT_TRUE(file->resize(2).ok());
  EXPECT_EQ(content("f"), "01");
  EXPECT_TRUE(file->resize(4).ok());
  EXPECT_EQ(content("f"), std::string("01\0\0", 4));
  EXPECT_TRUE(file->preallocate(6).ok());
  EXPECT_EQ(content("f"), std::string("01\0\0\0\0", 6));
  EXPECT_TRUE(file->preallocate(1).ok()) << "never makes a file shorter";
  EXPECT_EQ(*file->size(), 6u);
  EXPECT_TRUE(file->preallocate(0).ok());
  ASSERT_TRUE(files_->open(path("f"), {.writable = true, .truncate = true}).ok());
  EXPECT_EQ(*file->size(), 0u);
}

TEST_P(FileTest, sizes_behind_the_end_of_any_file_are_refused) {
  auto file = make("f");
  Bytes byte(1);
  EXPECT_FALSE(file->write_at(byte, UINT64_MAX).ok());
  EXPECT_FALSE(file->write_at(byte, INT64_MAX).ok());
  EXPECT_FALSE(file->resize(UINT64_MAX).ok());
  EXPECT_FALSE(file->preallocate(UINT64_MAX).ok());
  EXPECT_EQ(*file->size(), 0u);
}

TEST_P(FileTest, temporary_files_have_new_names_or_none) {
  auto first = files_->open_temporary({.where = root_});
  auto second = files_->open_temporary({.where = path("kv-XXXXXX")});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT((*second)->path(), HasSubstr("/kv-"));
  EXPECT_THAT((*second)->path(), ::testing::Not(HasSubstr("XXXXXX")));
  EXPECT_EQ(files_->list(root_)->size(), 2u);
  auto nameless = files_->open_temporary({.where = root_, .named = false});
  ASSERT_TRUE(nameless.ok());
  EXPECT_EQ(files_->list(root_)->size(), 2u);
  EXPECT_TRUE(write_exactly(**nameless, as_bytes("lives on"), 0).ok());
  EXPECT_EQ(*(*nameless)->size(), 8u);
  EXPECT_EQ(files_->open_temporary({.where = path("none")}).code(), Code::not_found);
}

TEST_P(FileTest, names_are_listed_removed_and_replaced) {
  auto b = make("b", "of b");
  make("a", "of a");
  EXPECT_THAT(*files_->list(root_), ElementsAre("a", "b"));
  ASSERT_TRUE(files_->rename({.source = path("a"), .target = path("b")}).ok());
  EXPECT_THAT(*files_->list(root_), ElementsAre("b"));
  EXPECT_EQ(content("b"), "of a");
  EXPECT_EQ(*b->size(), 4u) << "the file that was replaced lives on for who has it open";
  EXPECT_EQ(files_->rename({.source = path("a"), .target = path("b")}).code(), Code::not_found);
  EXPECT_TRUE(files_->sync_directory(root_).ok());
  EXPECT_TRUE(files_->remove(path("b")).ok());
  EXPECT_EQ(files_->remove(path("b")).code(), Code::not_found);
  EXPECT_TRUE(files_->list(root_)->empty());
}

TEST_P(FileTest, a_lock_is_one_opening_s_until_it_closes) {
  auto first = files_->open(path("lock"), {.writable = true, .create = true});
  auto second = files_->open(path("lock"), {});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->lock().ok());
  EXPECT_TRUE((*first)->lock().ok()) << "one's own is no obstacle";
  EXPECT_EQ((*second)->lock().code(), Code::unavailable);
  first->reset();
  EXPECT_TRUE((*second)->lock().ok());
}

TEST_P(FileTest, a_child_that_closes_its_copy_leaves_the_lock_to_its_parent) {
  auto first = files_->open(path("lock"), {.writable = true, .create = true});
  auto second = files_->open(path("lock"), {});
  ASSERT_TRUE((*first)->lock().ok());
  EXPECT_TRUE(testing::passes_in_child([&] { first->reset(); }));
  EXPECT_EQ((*second)->lock().code(), Code::unavailable);
}

TEST_P(FileTest, directories_are_made_with_their_parents) {
  ASSERT_TRUE(files_->make_directories(path("x/y/z")).ok());
  ASSERT_TRUE(files_->make_directories(path("x/y")).ok());
  EXPECT_THAT(*files_->list(path("x")), ElementsAre("y"));
  make("x/y/f", "deep");
  EXPECT_THAT(*files_->list(path("x/y")), ElementsAre("f", "z"));
  EXPECT_EQ(files_->make_directories(path("x/y/f")).code(), Code::already_exists);
  EXPECT_EQ(files_->list(path("none")).code(), Code::not_found);
  EXPECT_EQ(files_->sync_directory(path("none")).code(), Code::not_found);
  EXPECT_EQ(files_->available_bytes(path("none")).code(), Code::not_found);
  EXPECT_GT(*files_->available_bytes(root_), 0u);
}

TEST_P(FileTest, direct_io_is_real_or_its_refusal_has_a_reason) {
  auto file = files_->open(path("d"), {.writable = true, .create = true, .direct = true});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->direct(), (*file)->direct_refusal().empty());
  EXPECT_EQ((*file)->direct(), (*file)->alignment() > 1);
  EXPECT_EQ(*(*file)->size(), 0u) << "the probe leaves nothing behind";
  alignas(4096) std::byte block[4096];
  std::fill(std::begin(block), std::end(block), std::byte{7});
  EXPECT_TRUE(write_exactly(**file, block, 4096).ok());
  alignas(4096) std::byte back[4096] = {};
  EXPECT_TRUE(read_exactly(**file, back, 4096).ok());
  EXPECT_TRUE(std::ranges::equal(block, back));
  // 100 bytes behind the last whole block: a direct read meets the end off its alignment.
  EXPECT_TRUE((*file)->resize(8292).ok());
  EXPECT_EQ(read_exactly(**file, back, 8192).code(), Code::corrupt);
  EXPECT_TRUE(make("plain")->direct_refusal().empty()) << "not wanted, so not refused";
}

}  // namespace
}  // namespace towpath::sys
