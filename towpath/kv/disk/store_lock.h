// A store's directory has one process at a time. Three things together say which, since none alone
// does:
//
//   the directory, by flock(2)     it cannot be removed while the store is in it; the file `lock`
//                                  can. But a forked child holds it on when its parent has died.
//   the file `lock`, by F_SETLK    dies with the process, and its children do not have it. But a
//                                  process does not refuse itself, and gives it up when it closes
//                                  any opening of the file, which can be removed, too.
//   what `lock` says               which process has it, and when it has let go, so that another,
//                                  which finds the first one taken, can see whether that process
//                                  has ended.
//
// So a store is taken over from a process that has ended, whatever became of its children, by one
// of those that want it. The file `lock` is also locked by flock(2), as releases before this one
// do. Of one process a claim keeps two openings apart, before either opens anything. Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <towpath/sys/file.h>
#include <towpath/sys/own_process.h>

namespace towpath::kv {

struct StoreHolder {
  std::string directory;
  std::uint64_t incarnation = 0;
};

inline constexpr const char* kLockName = "lock";

/// While it lives nothing else in this process claims the directory, or the drive: from before the
/// first of its files is opened until the last is closed. Null: the kernel does not have it, and
/// each opening refuses the others. Errors: unavailable.
Result<std::shared_ptr<const void>> claim_in_process(sys::FileSystem& files,
                                                     const StoreHolder& holder);

/// Held while it lives, and it says so when it goes.
struct StoreLock {
  StoreLock() = default;
  StoreLock(StoreLock&& other) noexcept
      : claim(std::move(other.claim)),
        directory(std::move(other.directory)),
        file(std::move(other.file)),
        named_by(std::exchange(other.named_by, std::nullopt)) {}
  StoreLock& operator=(StoreLock&& other) noexcept;
  ~StoreLock() { let_go(); }

  std::shared_ptr<const void> claim;  ///< goes last; of a drive its DriveFiles has it
  /// Of a drive, the drive; null: another's, which has ended and left children.
  std::unique_ptr<sys::File> directory;
  std::unique_ptr<sys::File>
      file;  ///< null: there is none in a directory that cannot be written to
  /// The process whose name `file` has. A forked child says nothing.
  std::optional<sys::OwnProcess> named_by;

 private:
  void let_go() noexcept;
};

/// Errors: unavailable (with the holder's own words), denied (`lock` is a link or no file), those
/// of the file system.
Result<StoreLock> lock_store(sys::FileSystem& files, const StoreHolder& holder);

/// Whether this is what a store's process leaves there, and nothing else.
bool names_holder(std::string_view text);

/// The same of a drive, or of a file that is used as one: `holder.directory` is its path, and what
/// `words`, a part of it, has says which process has it. The caller has claimed it.
Result<StoreLock> lock_drive(sys::FileSystem& files, const StoreHolder& holder,
                             std::unique_ptr<sys::File> words);

}  // namespace towpath::kv
