// Every call that DiskRegion makes of the file system fails once, each in its turn; whatever fails,
// no descriptor stays open, no file that it made stays, and no file that was there goes or changes.

#include <cerrno>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/memory/disk_region.h>
#include <towpath/memory/testing/observe.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::next_descriptor;

/// Lets `calls` through, fails the next one, lets the rest through.
class Fault {
 public:
  explicit Fault(std::uint64_t calls) : left_(calls) {}
  bool strikes() {
    if (!armed_ || struck_ || left_-- > 0) return false;
    struck_ = true;
    return true;
  }
  void arm() { armed_ = true; }
  void disarm() { armed_ = false; }
  bool struck() const { return struck_; }
  static Status failure() { return error(Code::io_error, "injected"); }

 private:
  std::uint64_t left_;
  bool struck_ = false;
  bool armed_ = true;
};

class FaultyFile final : public sys::File {
 public:
  FaultyFile(std::unique_ptr<sys::File> real, Fault& fault)
      : real_(std::move(real)), fault_(fault) {}

  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override {
    if (fault_.strikes()) return Fault::failure();
    return real_->read_at(into, offset);
  }
  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override {
    if (fault_.strikes()) return Fault::failure();
    return real_->write_at(from, offset);
  }
  Status sync() override { return fault_.strikes() ? Fault::failure() : real_->sync(); }
  Status lock() override { return fault_.strikes() ? Fault::failure() : real_->lock(); }
  Result<std::uint64_t> size() override {
    if (fault_.strikes()) return Fault::failure();
    return real_->size();
  }
  Status resize(std::uint64_t size_bytes) override {
    return fault_.strikes() ? Fault::failure() : real_->resize(size_bytes);
  }
  Status preallocate(std::uint64_t size_bytes) override {
    return fault_.strikes() ? Fault::failure() : real_->preallocate(size_bytes);
  }
  int fd() const noexcept override { return real_->fd(); }
  const std::string& path() const noexcept override { return real_->path(); }
  bool direct() const noexcept override { return real_->direct(); }
  const std::string& direct_refusal() const noexcept override { return real_->direct_refusal(); }
  std::uint64_t alignment() const noexcept override { return real_->alignment(); }

 private:
  std::unique_ptr<sys::File> real_;
  Fault& fault_;
};

/// Over the kernel's files, so that leaked descriptors and names are really there to be found.
class FaultyFileSystem final : public sys::FileSystem {
 public:
  explicit FaultyFileSystem(Fault& fault) : fault_(fault) {}

  Result<std::unique_ptr<sys::File>> open(const std::string& path,
                                          const sys::OpenFile& options) override {
    if (fault_.strikes()) return Fault::failure();
    return wrap(real_.open(path, options));
  }
  Result<std::unique_ptr<sys::File>> open_temporary(const sys::OpenTemporary& options) override {
    if (fault_.strikes()) return Fault::failure();
    return wrap(real_.open_temporary(options));
  }
  Status remove(const std::string& path) override {
    return fault_.strikes() ? Fault::failure() : real_.remove(path);
  }
  Status rename(const sys::Rename& names) override {
    return fault_.strikes() ? Fault::failure() : real_.rename(names);
  }
  Status make_directories(const std::string& path) override {
    return fault_.strikes() ? Fault::failure() : real_.make_directories(path);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return real_.list(directory);
  }
  Status sync_directory(const std::string& directory) override {
    return fault_.strikes() ? Fault::failure() : real_.sync_directory(directory);
  }
  Result<std::uint64_t> available_bytes(const std::string& path) override {
    return real_.available_bytes(path);
  }
  sys::PathKind kind_of(const std::string& path) override { return real_.kind_of(path); }

 private:
  Result<std::unique_ptr<sys::File>> wrap(Result<std::unique_ptr<sys::File>> opened) {
    if (!opened.ok()) return opened.status();
    return std::make_unique<FaultyFile>(*std::move(opened), fault_);
  }

  sys::SystemFileSystem real_;
  Fault& fault_;
};

class DiskRegionFaultsTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() { return *files_.list(directory_.path()); }

  /// Fails call after call until one opening needs no more calls; returns how many it made.
  std::uint64_t fail_each_call(const DiskOptions& options) {
    for (std::uint64_t calls = 0;; ++calls) {
      const auto names_before = names();
      const int descriptor_before = next_descriptor();
      Fault fault(calls);
      FaultyFileSystem faulty(fault);
      auto region = DiskRegion::open(options, faulty);
      fault.disarm();
      if (!fault.struck()) return calls;
      EXPECT_FALSE(region.ok()) << "call " << calls;
      EXPECT_EQ(region.code(), Code::io_error);
      EXPECT_NE(region.status().to_string().find("injected"), std::string::npos);
      EXPECT_EQ(names(), names_before) << "call " << calls;
      EXPECT_EQ(next_descriptor(), descriptor_before) << "call " << calls;
    }
  }

  sys::SystemFileSystem files_;
  sys::TemporaryDirectory directory_ = *sys::TemporaryDirectory::create();
};

TEST_F(DiskRegionFaultsTest, a_new_file_is_gone_again_whatever_fails) {
  for (const FileLife life : {FileLife::removed_on_close, FileLife::nameless}) {
    for (const char* name : {"kv", "kv-XXXXXX", ""}) {
      const auto calls =
          fail_each_call({.path = directory_.file(name), .size_bytes = 8192, .life = life});
      EXPECT_GE(calls, 3u) << name;  // make_directories, open, preallocate
    }
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DiskRegionFaultsTest, a_file_to_keep_is_kept_only_when_all_went_well) {
  fail_each_call({.path = directory_.file("kv"), .size_bytes = 8192, .life = FileLife::kept});
  EXPECT_THAT(names(), ElementsAre("kv"));
}

TEST_F(DiskRegionFaultsTest, a_file_that_was_there_survives_whatever_fails) {
  {
    auto file = *files_.open(directory_.file("old"), {.writable = true, .create = true});
    ASSERT_TRUE(sys::write_exactly(*file, as_bytes("precious"), 0).ok());
  }
  EXPECT_GE(fail_each_call({.path = directory_.file("old"), .size_bytes = 8192}), 4u);
  EXPECT_THAT(names(), ElementsAre("old"));
  auto file = *files_.open(directory_.file("old"), {});
  Bytes bytes(8);
  ASSERT_TRUE(sys::read_exactly(*file, bytes, 0).ok());
  EXPECT_EQ(as_text(bytes), "precious");
}

TEST_F(DiskRegionFaultsTest, an_unlink_that_failed_is_reported_and_can_be_tried_again) {
  Fault fault(0);
  fault.disarm();
  FaultyFileSystem faulty(fault);
  auto region = DiskRegion::open({.path = directory_.file("kv"), .size_bytes = 1}, faulty);
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  fault.arm();
  EXPECT_EQ((*region)->unlink().code(), Code::io_error);
  EXPECT_THAT(names(), ElementsAre("kv"));
  EXPECT_TRUE((*region)->unlink().ok());
  EXPECT_THAT(names(), IsEmpty());
}

TEST(DiskRegionInMemoryTest, a_full_disk_is_exhausted_and_holds_no_file_of_ours) {
  sys::MemoryFileSystem files;
  files.set_capacity(65536);
  auto region = DiskRegion::open({.path = "/kv/pool", .size_bytes = 65537}, files);
  EXPECT_EQ(region.code(), Code::exhausted) << region.status().to_string();
  EXPECT_THAT(*files.list("/kv"), IsEmpty());
  EXPECT_TRUE(DiskRegion::open({.path = "/kv/pool", .size_bytes = 65536}, files).ok());
}

TEST(DiskRegionInMemoryTest, a_disk_that_fills_up_meanwhile_is_exhausted_with_its_cause) {
  sys::MemoryFileSystem files;
  files.inject({.on = sys::FileOp::preallocate, .errno_value = ENOSPC});
  auto region =
      DiskRegion::open({.path = "/kv/pool", .size_bytes = 4096, .life = FileLife::kept}, files);
  EXPECT_EQ(region.code(), Code::exhausted);
  EXPECT_NE(region.status().to_string().find("ENOSPC"), std::string::npos);
  EXPECT_FALSE(region.status().hint().empty());
  EXPECT_THAT(*files.list("/kv"), IsEmpty());
}

TEST(DiskRegionInMemoryTest, a_file_without_a_descriptor_reports_so) {
  sys::MemoryFileSystem files;
  auto region = DiskRegion::open({.path = "/kv/pool", .size_bytes = 4096}, files);
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  EXPECT_EQ((*region)->descriptor().fd, -1);
  EXPECT_FALSE((*region)->direct());
  auto required = DiskRegion::open(
      {.path = "/kv/other", .size_bytes = 4096, .direct = DirectIo::required}, files);
  EXPECT_EQ(required.code(), Code::unsupported);
  EXPECT_THAT(*files.list("/kv"), ElementsAre("pool"));
}

}  // namespace
}  // namespace towpath::memory
