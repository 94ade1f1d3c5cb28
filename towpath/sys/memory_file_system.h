// MemoryFileSystem: files in memory, for tests, and for what need not outlive a process. It can do
// to a program what disks do: fail, stop short, tear, flip, fill up, and forget at a crash what was
// not synced.
//
//   MemoryFileSystem disk;
//   disk.inject({.on = FileOp::write, .nth = 2, .effect = FileEffect::torn, .bytes = 100});
//   ...
//   disk.crash();   // what File::sync() and sync_directory() did not save is gone
//
// Differences to a disk: directories survive a crash once made; there are no permissions or links.
// Thread: any; calls are served one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <towpath/sys/file.h>

namespace towpath::sys {

namespace internal {
struct MemoryDisk;
}

enum class FileOp {
  open,
  read,
  write,
  sync,
  start_sync,  ///< only counted
  resize,
  preallocate,
  remove,
  rename,
  sync_directory
};

enum class FileEffect {
  fail,      ///< nothing happens; the call fails with errno_value
  stop,      ///< only `bytes` bytes are read or written, and the call says so
  torn,      ///< write: only `bytes` bytes land, but the call claims all of them
  flip_bit,  ///< read or write: bit number `bit` of the bytes moved is inverted
  forget,    ///< sync: claims success and saves nothing
  /// sync: fails as Linux does. Of the first `bytes` bytes, or of all where that is 0, what was not
  /// synced can be read until drop_cache() and is saved by no later sync; what is behind is saved.
  lose,
};

/// Strikes the nth call (counted from inject(), 1 is the next) of one kind, and `times` - 1 after
/// it.
struct FileFault {
  FileOp on = FileOp::read;
  std::uint64_t nth = 1;
  std::uint64_t times = 1;
  FileEffect effect = FileEffect::fail;
  int errno_value = 5;  ///< EIO
  std::uint64_t bytes = 0;
  std::uint64_t bit = 0;
  std::string path_part;  ///< only calls on paths that contain this count; empty: all
};

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;
  MemoryFileSystem(const MemoryFileSystem&) = delete;
  MemoryFileSystem& operator=(const MemoryFileSystem&) = delete;

  void inject(FileFault fault);
  /// What was injected strikes no more.
  void heal();
  /// All files together may hold this much; a write across the mark stops there, one behind it
  /// fails with ENOSPC.
  void set_capacity(std::uint64_t bytes);
  /// Loses unsynced bytes and names, but for those pages of 4 KiB for which `survives` says so: a
  /// disk writes in any order. Files open now answer not_ready from here on.
  void crash(const std::function<bool()>& survives = {});
  /// What was not synced of this file is lost, and the next sync() of each opening that there is
  /// fails, once: as Linux reports a failed write-back.
  void fail_write_back(const std::string& path);
  /// Calls of one kind so far, failed ones included.
  std::uint64_t calls(FileOp op) const;

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenFile& options) override;
  Result<std::unique_ptr<File>> open_temporary(const OpenTemporary& options) override;
  Status remove(const std::string& path) override;
  Status rename(const Rename& names) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status sync_directory(const std::string& directory) override;
  Result<std::uint64_t> available_bytes(const std::string& path) override;
  PathKind kind_of(const std::string& path) override;

 private:
  std::shared_ptr<internal::MemoryDisk>
      disk_;  // shared with the open files, which may outlive this object
};

}  // namespace towpath::sys
