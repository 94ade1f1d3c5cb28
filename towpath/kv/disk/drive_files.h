// DriveFiles: a drive, or a file of fixed size, as the file system that stores are in.
//
//   /dev/nvme1n1/meta-llama.../segment-0000000000000007   the drive, a store's folder, a slot
//
// A file is a slot: all are of one length (file_slots()). A slot is free when its file has no
// name, on the drive neither, and nobody has it open. Names rest on the drive when
// sync_directory() has said so. Where the newest table is damaged the one before counts, so what is
// read after a crash is to be proven, as a BlockStore does. When no slot is free, files of folders
// that nobody has open go: a folder is so while its directory, or a file named `lock` in it, is. A
// file named `lock` is not on the drive: the drive has one process at a time, which store_lock.h
// says, and a folder has one store in it, and an opening of the drive, since Linux reports bytes
// that it could not write once to each opening: a store's sync learns of its own. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/kv/disk/drive_format.h>
#include <towpath/kv/disk/store_lock.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/file.h>

namespace towpath::sys {
class MemoryFileSystem;
}

namespace towpath::kv {

class DriveFiles final : public sys::FileSystem {
 public:
  /// `path` is a block device or a file of `files`, which outlives this. One whose first and last
  /// MiB are zeros is made ours, and a file gets its space. Errors: denied (something else is on
  /// it, or it may not be written), unavailable (another process has it, which is named, or it is
  /// mounted), exhausted (too small, no space), corrupt (both tables), unsupported (a later
  /// version's), io_error.
  static Result<std::shared_ptr<DriveFiles>> open(sys::FileSystem& files, const std::string& path,
                                                  std::uint64_t incarnation);

  ~DriveFiles() override;

  const DriveLabel& label() const noexcept { return label_; }

  /// Errors: also exhausted (no slot is free), unsupported (to truncate), unavailable (the path
  /// leads to another drive by now, and nothing of this folder was opened before), those of
  /// sync_directory(), where a slot becomes free by it.
  Result<std::unique_ptr<sys::File>> open(const std::string& path,
                                          const sys::OpenFile& options) override;
  /// Errors: unsupported.
  Result<std::unique_ptr<sys::File>> open_temporary(const sys::OpenTemporary& options) override;
  Status remove(const std::string& path) override;
  Status rename(const sys::Rename& names) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  /// Of all directories.
  Status sync_directory(const std::string& directory) override;
  Result<std::uint64_t> available_bytes(const std::string& path) override;
  sys::PathKind kind_of(const std::string& path) override;
  sys::FileSlots file_slots(const std::string& directory) const override;

 private:
  class Slots;
  using Slot = std::shared_ptr<const std::uint64_t>;  // taken while anybody has it
  using Names = std::map<std::string, Slot>;

  DriveFiles(sys::FileSystem& files, std::string path, const DriveLabel& label);
  Status read_table();
  /// In the drive: "folder/file"; empty for the drive itself. Errors: invalid_argument.
  Result<std::string> name_of(const std::string& path) const;
  Result<std::unique_ptr<sys::File>> open_note(const std::string& name,
                                               const sys::OpenFile& options);
  Result<std::shared_ptr<sys::File>> opening_for(const std::string& folder)
      TOWPATH_REQUIRES(mutex_);
  Result<Slot> make(const std::string& name) TOWPATH_REQUIRES(mutex_);
  void forget(Names::iterator file) TOWPATH_REQUIRES(mutex_);
  Status write_table() TOWPATH_REQUIRES(mutex_);
  bool forget_unused() TOWPATH_REQUIRES(mutex_);
  bool is_in_use(const std::string& folder) const TOWPATH_REQUIRES(mutex_);

  sys::FileSystem& files_;
  const std::string path_;
  const DriveLabel label_;
  const std::optional<sys::FileIdentity> identity_;
  std::shared_ptr<const void> claim_;  // goes when all below is closed
  std::shared_ptr<sys::File> file_;    // through the page cache: the tables
  std::shared_ptr<sys::File> direct_;  // past it, or the same, with the reason
  run::Mutex mutex_;
  /// Of each folder, through the page cache: what is in its files.
  std::map<std::string, std::shared_ptr<sys::File>> openings_ TOWPATH_GUARDED_BY(mutex_);
  StoreLock lock_;                                      // goes before the drive is closed anywhere
  const std::unique_ptr<sys::MemoryFileSystem> notes_;  // locks, and their words
  const std::shared_ptr<Slots> slots_;
  Names names_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<Slot> let_go_ TOWPATH_GUARDED_BY(mutex_);  // that the drive's table may name yet
  /// Of each folder that ever was: alive while somebody has it open.
  std::map<std::string, std::weak_ptr<const void>> in_use_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t sequence_ TOWPATH_GUARDED_BY(mutex_) = 0;  // of the table that is on the drive
};

}  // namespace towpath::kv
