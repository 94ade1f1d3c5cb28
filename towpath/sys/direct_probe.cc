#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/direct_probe.h>
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

/// A read of the first block, or on an empty file a write that is taken back.
DirectProbe try_one_block(int fd, bool writable) {
  alignas(kTrialBytes) std::byte block[kTrialBytes] = {};
  struct stat info {};
  const bool empty = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
  if (!empty || !writable) {
    if (::pread(fd, block, sizeof block, 0) < 0)
      return refused("a 4096-byte read", cat("the first direct read fails: ", errno_text(errno)));
    return granted("a 4096-byte read", kUsualAlignment);
  }
  const bool written = ::pwrite(fd, block, sizeof block, 0) == sizeof block;
  const int reason = errno;
  if (::ftruncate(fd, 0) != 0)
    return refused("a 4096-byte write", cat("cannot take a trial block back: ", errno_text(errno)));
  if (!written)
    return refused("a 4096-byte write", cat("the first direct write fails: ", errno_text(reason)));
  return granted("a 4096-byte write", kUsualAlignment);
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
