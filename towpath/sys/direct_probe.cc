#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/direct_probe.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/open_rules.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kTrialBytes = 4096;
constexpr std::uint64_t kUsualAlignment = 4096;  // covers every logical block size in use

DirectProbe refused(std::string signal, std::string why) {
  return {.refusal = std::move(why), .signal = std::move(signal)};
}

DirectProbe granted(std::string signal, std::uint64_t alignment) {
  return {.direct = true, .alignment = alignment, .signal = std::move(signal)};
}

/// Of a drive (a block device), which is asked and not tried: what is there is somebody's.
DirectProbe ask_drive(int fd) {
  int block_bytes = 0;
  if (::ioctl(fd, BLKSSZGET, &block_bytes) != 0 || block_bytes <= 0)
    return refused("ioctl(BLKSSZGET)",
                   cat("the drive does not say how long a block is: ", errno_text(errno)));
  return granted("ioctl(BLKSSZGET)", static_cast<std::uint64_t>(block_bytes));
}

/// Of the same file system, for trials: the file itself may be another's, who is filling it now.
/// None: it cannot be made.
Fd nameless_beside(int fd, const struct stat& file) {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink(cat("/proc/self/fd/", fd).c_str(), path.data(), path.size());
  if (length <= 0) return {};
  const std::string directory =
      internal::parent_of({path.data(), static_cast<std::size_t>(length)});
  Fd made(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  struct stat info {};
  const bool is_of_it = made && ::fstat(made.get(), &info) == 0 && info.st_dev == file.st_dev;
  return is_of_it ? std::move(made) : Fd();  // else the file alone is mounted there
}

/// A read of the first block, or of an empty file, where that shows nothing, a write beside it.
DirectProbe try_one_block(int fd, bool writable) {
  alignas(kTrialBytes) std::byte block[kTrialBytes] = {};
  struct stat file {};
  const bool is_empty = ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0;
  if (const Fd beside = is_empty && writable ? nameless_beside(fd, file) : Fd()) {
    if (::pwrite(beside.get(), block, sizeof block, 0) == sizeof block)
      return granted("a 4096-byte write beside it", kUsualAlignment);
    return refused("a 4096-byte write beside it",
                   cat("the first direct write fails: ", errno_text(errno)));
  }
  if (::pread(fd, block, sizeof block, 0) < 0)
    return refused("a 4096-byte read", cat("the first direct read fails: ", errno_text(errno)));
  return granted("a 4096-byte read", kUsualAlignment);
}

}  // namespace

DirectProbe probe_direct(int fd, bool writable) {
  struct stat file {};
  // Its name is in a file system in memory (/dev), and its blocks are not.
  const bool is_drive = ::fstat(fd, &file) == 0 && S_ISBLK(file.st_mode);
  struct statfs place {};
  if (!is_drive && ::fstatfs(fd, &place) == 0 &&
      (place.f_type == TMPFS_MAGIC || place.f_type == RAMFS_MAGIC))
    return refused("fstatfs", "the file system keeps its files in memory (tmpfs or ramfs)");
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    if (info.stx_dio_offset_align == 0)
      return refused("statx(STATX_DIOALIGN)", "the kernel says that this file takes no direct I/O");
    return granted("statx(STATX_DIOALIGN)",
                   std::max(info.stx_dio_mem_align, info.stx_dio_offset_align));
  }
#endif
  return is_drive ? ask_drive(fd) : try_one_block(fd, writable);
}

}  // namespace towpath::sys
