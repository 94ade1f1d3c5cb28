#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/direct_probe.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::sys {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(SystemFileTest, preallocated_space_is_really_there) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  SystemFileSystem files;
  auto file = files.open(directory->file("f"), {.writable = true, .create = true});
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->preallocate(1 << 20).ok());
  struct stat info {};
  ASSERT_EQ(::fstat((*file)->fd(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(::fcntl((*file)->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(SystemFileTest, a_plain_file_is_waited_for_once_it_is_open) {
  auto directory = TemporaryDirectory::create("/var/tmp");
  ASSERT_TRUE(directory.ok());
  SystemFileSystem files;
  for (const bool direct : {false, true}) {
    const std::string path = directory->file(direct ? "direct" : "buffered");
    auto file =
        files.open(path, {.writable = true, .create = true, .direct = direct, .plain = true});
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const int flags = ::fcntl((*file)->fd(), F_GETFL);
    EXPECT_EQ(flags & O_NONBLOCK, 0) << "io_uring of Linux before 6.5 would end its I/Os (EAGAIN)";
    EXPECT_EQ(flags & O_ACCMODE, O_RDWR);
    EXPECT_EQ((flags & O_DIRECT) != 0, (*file)->direct());
  }
}

/// How many of these bytes the page cache has, in pages; nothing: it cannot be asked.
std::optional<std::size_t> pages_in_cache(int fd, std::size_t offset, std::size_t length) {
  void* const at = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return std::nullopt;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_there((length + page - 1) / page);
  const bool could = ::mincore(at, length, is_there.data()) == 0;
  (void)::munmap(at, length);
  if (!could) return std::nullopt;
  return static_cast<std::size_t>(
      std::ranges::count_if(is_there, [](unsigned char one) { return (one & 1U) != 0; }));
}

// ext4 and XFS have written it in folios that begin before the range and end behind it.
TEST(SystemFileTest, what_is_dropped_from_the_cache_is_read_from_the_disk) {
  constexpr std::size_t kBytes = std::size_t{4} << 20U, kBegin = 256 << 10U, kLength = 64 << 10U;
  auto directory = TemporaryDirectory::create("/var/tmp");
  ASSERT_TRUE(directory.ok());
  SystemFileSystem files;
  const Bytes bytes(kBytes, std::byte{7});
  for (const bool is_control : {true, false}) {
    auto file = files.open(directory->file("f"), {.writable = true, .create = true});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(write_exactly(**file, bytes, 0).ok());
    if (is_control) {
      ASSERT_TRUE((*file)->sync().ok());
      ASSERT_EQ(::posix_fadvise((*file)->fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
    } else {
      ASSERT_TRUE(sync_and_drop_cache(**file, {.begin = kBegin, .size_bytes = kLength}).ok());
    }
    const auto pages = pages_in_cache((*file)->fd(), kBegin, kLength);
    if (is_control && pages != 0U) GTEST_SKIP() << "the file system keeps what it has in memory";
    EXPECT_EQ(pages, 0U);
    Bytes found(kBytes);
    ASSERT_TRUE(read_exactly(**file, found, 0).ok());
    EXPECT_EQ(found, bytes);
  }
}

TEST(SystemFileTest, a_full_disk_is_exhausted_and_keeps_the_size) {
  SystemFileSystem files;
  auto full = files.open("/dev/full", {.writable = true});
  ASSERT_TRUE(full.ok());
  const Status status = write_exactly(**full, as_bytes("x"), 0);
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_THAT(status.to_string(), HasSubstr("stopped after 0"));
  auto file = files.open_temporary({.where = "/dev/shm", .named = false});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const Status vast = (*file)->preallocate(1ull << 50);
  EXPECT_EQ(vast.code(), Code::exhausted) << vast.to_string();
  EXPECT_EQ(*(*file)->size(), 0u);
}

TEST(SystemFileTest, a_file_system_in_memory_is_never_called_direct) {
  SystemFileSystem files;
  auto file = files.open_temporary({.where = "/dev/shm", .named = false, .direct = true});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_FALSE((*file)->direct());
  EXPECT_FALSE((*file)->direct_refusal().empty());
  Bytes odd(13);
  EXPECT_EQ(*(*file)->write_at(odd, 1), 13u) << "nothing needs to be aligned";
}

TEST(SystemFileTest, the_probe_reports_what_it_looked_at) {
  const Fd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const DirectProbe probe = probe_direct(zero.get(), true);
  EXPECT_FALSE(probe.signal.empty());
  EXPECT_EQ(probe.direct, probe.refusal.empty());
}

TEST(SystemFileTest, a_mark_is_seen_by_all_other_openings_until_its_own_closes) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  SystemFileSystem files;
  auto marked = files.open(directory->file("f"), {.writable = true, .create = true});
  auto other = files.open(directory->file("f"), {.writable = true});
  auto reader = files.open(directory->file("f"), {});
  ASSERT_TRUE(marked.ok() && other.ok() && reader.ok());
  EXPECT_FALSE((*reader)->in_use().value());
  ASSERT_TRUE((*marked)->mark_in_use().ok());
  EXPECT_FALSE((*marked)->in_use().value()) << "its own is not another's";
  EXPECT_TRUE((*reader)->in_use().value());
  EXPECT_TRUE((*other)->in_use().value()) << "and asking took nothing";
  EXPECT_EQ((*other)->mark_in_use().code(), Code::unavailable);
  ASSERT_TRUE(files.open(directory->file("f"), {}).ok());
  EXPECT_TRUE((*reader)->in_use().value()) << "another opening that closes frees nothing";
  EXPECT_TRUE(testing::passes_in_child([&] { marked->reset(); }));
  EXPECT_TRUE((*reader)->in_use().value()) << "nor does a child that closes its copy";
  marked->reset();
  EXPECT_FALSE((*reader)->in_use().value());
}

// ---- What the kernel of this machine can, and others cannot: in a child where it is refused.

/// Writes behind `size_bytes` of any file fail with EFBIG.
bool limit_files_to(rlim_t size_bytes) {
  const rlimit limit{size_bytes, size_bytes};
  return std::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

std::unique_ptr<File> open_new(const std::string& path, bool direct = false) {
  auto file = SystemFileSystem().open(path, {.writable = true, .create = true, .direct = direct});
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  return std::move(*file);
}

TEST(SystemFileTest, space_that_cannot_be_reserved_is_filled_with_zeros) {
  const auto directory = std::move(*TemporaryDirectory::create());
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_fallocate}, EOPNOTSUPP)) GTEST_SKIP() << testing::kNoFilter;
    const auto file = open_new(directory.file("f"));
    ASSERT_TRUE(write_exactly(*file, as_bytes("abc"), 0).ok());
    ASSERT_TRUE(file->preallocate(200'001).ok());
    EXPECT_EQ(*file->size(), 200'001U);
    Bytes content(200'001, std::byte{7});
    ASSERT_TRUE(read_exactly(*file, content, 0).ok());
    EXPECT_EQ(std::memcmp(content.data(), "abc", 4), 0);
    EXPECT_EQ(std::count(content.begin(), content.end(), std::byte{0}), 199'998);
    struct stat info {};
    ASSERT_EQ(::fstat(file->fd(), &info), 0);
    EXPECT_GE(info.st_blocks * 512, 200'001);
    ASSERT_TRUE(file->preallocate(10).ok());
    EXPECT_EQ(*file->size(), 200'001U) << "never shorter";
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(SystemFileTest, zeros_go_past_the_alignment_of_a_direct_file) {
  const auto directory = std::move(*TemporaryDirectory::create("/var/tmp"));
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_fallocate}, EOPNOTSUPP)) GTEST_SKIP() << testing::kNoFilter;
    const auto file = open_new(directory.file("f"), true);
    ASSERT_TRUE(file->preallocate(5000).ok());
    EXPECT_EQ(*file->size(), 5000U);
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(SystemFileTest, zeros_that_do_not_fit_leave_the_file_as_it_was) {
  const auto directory = std::move(*TemporaryDirectory::create());
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_fallocate}, EOPNOTSUPP)) GTEST_SKIP() << testing::kNoFilter;
    const auto file = open_new(directory.file("f"));
    ASSERT_TRUE(write_exactly(*file, as_bytes("abc"), 0).ok());
    ASSERT_TRUE(limit_files_to(100'000));
    const Status status = file->preallocate(1 << 20);
    EXPECT_THAT(status.to_string(), HasSubstr("fill with zeros"));
    EXPECT_EQ(*file->size(), 3U);
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(SystemFileTest, a_refusal_to_reserve_is_reported_with_its_reason) {
  const auto directory = std::move(*TemporaryDirectory::create());
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_fallocate}, EIO)) GTEST_SKIP() << testing::kNoFilter;
    const auto file = open_new(directory.file("f"));
    EXPECT_EQ(file->preallocate(4096).code(), Code::io_error);
    EXPECT_EQ(*file->size(), 0U);
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

// Linux before 6.1, and file systems that do not fill STATX_DIOALIGN in: one block is tried.
TEST(DirectProbeTest, one_block_is_tried_where_the_kernel_does_not_say) {
  const auto directory = std::move(*TemporaryDirectory::create("/var/tmp"));
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_statx}, ENOSYS)) GTEST_SKIP() << testing::kNoFilter;
    const Fd file(::open(directory.file("f").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
    if (!file) GTEST_SKIP() << "/var/tmp takes no O_DIRECT: mount a disk there";
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::futimens(file.get(), long_ago), 0);
    DirectProbe probe = probe_direct(file.get(), true);
    if (probe.signal == "fstatfs") GTEST_SKIP() << probe.refusal;
    EXPECT_TRUE(probe.direct) << probe.refusal;
    EXPECT_THAT(probe.signal, AnyOf("a 4096-byte write beside it", "a 4096-byte read"));
    EXPECT_EQ(probe.alignment, 4096U);
    struct stat info {};
    ASSERT_EQ(::fstat(file.get(), &info), 0);
    EXPECT_EQ(info.st_size, 0);
    EXPECT_EQ(info.st_mtim.tv_sec, 1000) << "nothing was written: others may be filling it";
    EXPECT_EQ(probe_direct(file.get(), false).signal, "a 4096-byte read");
    ASSERT_EQ(::ftruncate(file.get(), 100), 0);
    probe = probe_direct(file.get(), true);
    EXPECT_TRUE(probe.direct) << probe.refusal;
    EXPECT_EQ(probe.signal, "a 4096-byte read") << "bytes of the user are not written over";
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(DirectProbeTest, a_drive_goes_past_the_page_cache_although_its_name_is_in_memory) {
  Fd drive;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    drive.reset(::open(cat("/dev/", entry.path().filename().string()).c_str(),
                       O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (drive) break;
  }
  if (!drive) GTEST_SKIP() << "no block device can be opened: run as root, with one in /dev";
  const DirectProbe reported = probe_direct(drive.get(), true);
  EXPECT_TRUE(reported.direct) << reported.signal << ": " << reported.refusal;
  EXPECT_TRUE(is_power_of_two(reported.alignment)) << reported.alignment;
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_statx}, ENOSYS)) GTEST_SKIP() << testing::kNoFilter;
    const DirectProbe asked = probe_direct(drive.get(), true);
    EXPECT_TRUE(asked.direct) << asked.refusal;
    EXPECT_EQ(asked.signal, "ioctl(BLKSSZGET)") << "and nothing is written to it";
    EXPECT_GE(asked.alignment, 512U);
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(DirectProbeTest, a_trial_that_fails_is_a_refusal_with_its_reason) {
  const auto directory = std::move(*TemporaryDirectory::create("/var/tmp"));
  const auto body = [&] {
    if (!testing::refuse_calls({SYS_statx}, ENOSYS)) GTEST_SKIP() << testing::kNoFilter;
    const Fd file(::open(directory.file("f").c_str(), O_WRONLY | O_CREAT, 0600));
    const DirectProbe read = probe_direct(file.get(), false);
    if (read.signal == "fstatfs") GTEST_SKIP() << read.refusal;
    EXPECT_FALSE(read.direct);
    EXPECT_EQ(read.alignment, 1U);
    EXPECT_THAT(read.refusal, HasSubstr("direct read fails"));
    ASSERT_TRUE(limit_files_to(0));
    const DirectProbe write = probe_direct(file.get(), true);
    EXPECT_FALSE(write.direct);
    EXPECT_THAT(write.refusal,
                AnyOf(HasSubstr("direct write fails"), HasSubstr("direct read fails")));
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST(TemporaryDirectoryTest, removes_itself_and_its_content) {
  std::string path;
  {
    auto directory = TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    path = directory->path();
    ASSERT_TRUE(SystemFileSystem().make_directories(directory->file("a/b")).ok());
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  EXPECT_EQ(TemporaryDirectory::create("/nowhere").code(), Code::not_found);
}

TEST(TemporaryDirectoryTest, a_forked_child_that_drops_its_copy_leaves_the_directory) {
  std::optional<TemporaryDirectory> directory = TemporaryDirectory::create().value();
  const std::string path = directory->path();
  EXPECT_TRUE(testing::passes_in_child([&] { directory.reset(); }));
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  directory.reset();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace towpath::sys
