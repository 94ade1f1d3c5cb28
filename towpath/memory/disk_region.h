// DiskRegion: a file of a fixed size, as memory that transfers can fill and read.
//
// It is no cache index and knows nothing of what its bytes mean. Its address is 0, so that a view's
// address is an offset into the file.
// Invariants: the space is really reserved; a file that was there before is never removed, whatever
// is asked and whatever fails; a file that open() made is gone again when open() fails. A forked
// child's copy removes nothing: the file is its parent's. Thread: any.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/file.h>
#include <towpath/sys/own_process.h>

namespace towpath::memory {

enum class DirectIo {
  off,       ///< through the page cache
  wanted,    ///< past it where the file system can; otherwise direct_refusal() says why not
  required,  ///< past it, or open() fails
};

enum class FileLife {
  kept,              ///< stays when the region dies
  removed_on_close,  ///< loses its name when the region dies, or at unlink()
  nameless,          ///< loses its name within open(), so that nothing is left even by a SIGKILL
};

struct DiskOptions {
  /// One of three; missing parent directories are made:
  ///   "dir/file"        this file: opened when it is there, made when it is not
  ///   "dir/nameXXXXXX"  a new file; the X become letters that make the name new
  ///   "dir/"            a new file in this directory, with a name of ours
  std::string path;
  std::uint64_t size_bytes = 0;
  DirectIo direct = DirectIo::wanted;
  /// For files that open() makes. One that was there before is always kept.
  FileLife life = FileLife::removed_on_close;
};

class DiskRegion final : public Region {
  struct Private {};

 public:
  /// Bytes of a file that was there stay; where it is shorter, and in a new one, they are zeros.
  /// `files` must outlive the region.
  /// Errors: invalid_argument (size 0, no path, a directory without the "/" behind it),
  /// already_exists (nameless, but the file was there), unsupported (direct is required, and
  /// refused: the cause says why), exhausted (no space), denied.
  static Result<std::shared_ptr<DiskRegion>> open(const DiskOptions& options,
                                                  sys::FileSystem& files);

  DiskRegion(Private, sys::FileSystem& files, std::unique_ptr<sys::File> file, bool created);
  ~DiskRegion() override;

  /// Kind disk, address 0, device and fd: the open file; key: its path.
  RegionDescriptor descriptor() const override;

  /// For reading and writing from this process; offsets as in the region. Lives as long.
  sys::File& file() const noexcept { return *file_; }
  const std::string& path() const noexcept { return file_->path(); }
  /// Whether the page cache is bypassed, and if not although it was wanted, why.
  bool direct() const noexcept { return file_->direct(); }
  const std::string& direct_refusal() const noexcept { return file_->direct_refusal(); }
  /// Whether open() made the file.
  bool created() const noexcept { return created_; }

  /// Removes the file's name now (a backend may need it at registration, and not after).
  /// Idempotent; the bytes live on until the region dies. Errors: denied (the file was there
  /// before), io_error.
  Status unlink();

 private:
  /// What open() does once the file is open; after a failure the destructor cleans up.
  Status prepare(const DiskOptions& options);
  Status require_direct() const;
  Status require_space(std::uint64_t length) const;

  sys::FileSystem& files_;
  const std::unique_ptr<sys::File> file_;
  const bool created_;
  const sys::OwnProcess process_;  // that made it
  bool removed_at_end_;            // not touched after open()
  std::uint64_t size_bytes_ = 0;

  run::Mutex mutex_;
  bool unlinked_ TOWPATH_GUARDED_BY(mutex_) = false;
};

}  // namespace towpath::memory
