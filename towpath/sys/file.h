// The file seam: what the library needs of files and directories, so that a test can replace
// the disk (memory_file_system.h) and production uses the kernel (SystemFileSystem).
//
// It is not a cache and keeps no file position: every call names its offset.
// Invariants: counts that are reported are exact; a short read or write is reported, never hidden.
// EINTR is never seen. Thread: any, also several calls on one File at a time; overlapping writes
// land in some order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::sys {

/// Which file it is, whatever names it has.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// Where a file lies in its descriptor, or some of its bytes in a file.
struct FdRange {
  std::uint64_t begin = 0;
  std::uint64_t size_bytes = UINT64_MAX;
};

/// An open file. Closes when it dies; does not sync.
class File {
 public:
  virtual ~File() = default;

  /// Fills a prefix of `into` from `offset` on; less than all of it at the end of the file or when
  /// the kernel stops early; 0 only at or behind the end. With direct(), `offset`, the address and
  /// the length are multiples of alignment().
  virtual Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) = 0;
  /// Writes a prefix of `from`; the file grows as needed. Errors: exhausted (no space), unavailable
  /// (no memory to write with), io_error.
  virtual Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) = 0;
  /// Returns when the bytes and the size are on the disk. After a failure the unsynced bytes may be
  /// lost even if a later sync succeeds: write them again.
  virtual Status sync() = 0;
  /// Lets the disk begin with what was written, so that the sync() that comes has less to wait for.
  /// A hint: it promises nothing, and what goes wrong is reported by sync().
  virtual void start_sync() {}
  /// Forgets what the page cache has of these bytes, but for what the disk has yet to be given:
  /// what is read next comes from the disk. Linux takes a page for written when a sync()
  /// failed, although the disk never got it; this shows which. Best effort: a page that somebody
  /// maps stays.
  virtual void drop_cache(const FdRange& range) { (void)range; }
  /// Keeps the file for this opening of it until this process closes it, whatever children it has
  /// forked; at the process's end until they have ended too (flock(2)). Others that ask, in this
  /// process or another, are refused; one that does not ask is kept from nothing. Errors:
  /// unavailable (another has it), unsupported.
  virtual Status lock() = 0;
  /// Keeps other processes from doing the same until this process ends, or closes any opening of
  /// the file (fcntl(2), F_SETLK): a forked child does not have it, as it has that of lock(). The
  /// file is open for writing. Errors: unavailable (another process has it), unsupported.
  virtual Status lock_for_process() { return {}; }
  /// Says to in_use() that this opening of the file lives: until this process closes it, or has
  /// ended, and all children that it forked meanwhile (fcntl(2), F_OFD_SETLK). Others are kept from
  /// nothing but the same. The file is open for writing. Errors: unavailable (another opening did),
  /// unsupported, and those of fcntl(2).
  virtual Status mark_in_use();
  /// Whether another opening of the file, in this process or any, is marked. It takes nothing
  /// itself, so any number may ask at a time. Errors: as above.
  virtual Result<bool> in_use();

  virtual Result<std::uint64_t> size() = 0;
  /// Cuts, or grows with zeros that take no space.
  virtual Status resize(std::uint64_t size_bytes) = 0;
  /// Makes the file at least this long, with space that is really there. Bytes already in the file
  /// stay. Where the file system cannot reserve, zeros are written behind the end.
  /// Errors: exhausted (the file's size is then as before).
  virtual Status preallocate(std::uint64_t size_bytes) = 0;

  /// For io_uring and mmap; -1 when there is none. Valid while the File lives.
  virtual int fd() const noexcept = 0;
  /// Of a part of a drive (file_range.h); of others all of it. What uses fd() stays inside.
  virtual FdRange fd_range() const noexcept { return {}; }
  virtual const std::string& path() const noexcept = 0;

  /// Whether the page cache is bypassed (O_DIRECT).
  virtual bool direct() const noexcept = 0;
  /// Why direct() is false although it was wanted; empty otherwise.
  virtual const std::string& direct_refusal() const noexcept = 0;
  /// Of offset, length and memory address of each read and write, in bytes; 1 unless direct().
  virtual std::uint64_t alignment() const noexcept = 0;
};

/// Fills all of `into`. Errors: corrupt (the file ends first; the numbers are reported), or the
/// File's.
Status read_exactly(File& file, ByteSpan into, std::uint64_t offset);
/// Writes all of `from`. Errors: the File's, with how far it came.
Status write_exactly(File& file, ConstByteSpan from, std::uint64_t offset);

/// Syncs, and drops what the page cache has of these bytes: what is read next is on the disk, also
/// when a sync of an earlier life failed. Errors: those of syncing; then nothing is dropped.
Status sync_and_drop_cache(File& file, const FdRange& range = {});

struct OpenFile {
  bool writable = false;   ///< for reading and writing; otherwise reading only
  bool create = false;     ///< makes the file when there is none; needs writable
  bool exclusive = false;  ///< with create: fails when there is one
  bool truncate = false;   ///< drops the content; needs writable
  bool direct = false;     ///< wants O_DIRECT; falls back, and File::direct_refusal() says why
  /// Only a plain file of this very name: no link is followed, and no FIFO or device is waited for.
  bool plain = false;
  bool directory = false;  ///< a directory, to be locked; all else is false
  /// A drive (a block device), which nobody has mounted, nor mounts while it is open so (O_EXCL).
  /// Errors: unavailable.
  bool claimed = false;
};

/// Of a file system that has room for so many files, each of one length, always.
struct FileSlots {
  std::uint64_t count = 0;  ///< 0: files are as many, and as long, as they are written
  std::uint64_t size_bytes = 0;
  /// The one that was asked for, as the drive calls it, which may have another path next time.
  std::string directory;
};

enum class PathKind : std::uint8_t {
  none,  ///< there is nothing, or nothing that this process may see
  directory,
  file,
  drive,  ///< a block device
  other
};

struct OpenTemporary {
  /// A directory, or a path that ends in "XXXXXX", which become letters that make the name new.
  std::string where;
  /// false: the file has no name from the start, so nothing is left behind whatever happens.
  bool named = true;
  bool direct = false;
};

struct Rename {
  std::string source;
  std::string target;  ///< replaced when it exists, in one step
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Files are made with mode 0600. Errors: not_found, already_exists, denied (also what is not
  /// `plain`), invalid_argument (options that contradict each other), exhausted.
  virtual Result<std::unique_ptr<File>> open(const std::string& path, const OpenFile& options) = 0;
  /// A new file for reading and writing. The caller removes it, by File::path(), when it is named.
  virtual Result<std::unique_ptr<File>> open_temporary(const OpenTemporary& options) = 0;

  /// Removes a file. Open files live on without the name. Errors: not_found.
  virtual Status remove(const std::string& path) = 0;
  virtual Status rename(const Rename& names) = 0;
  /// Also the parents; those that exist already are fine. Mode 0700.
  virtual Status make_directories(const std::string& path) = 0;
  /// Names in a directory, sorted, without "." and "..". Errors: not_found.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  /// Makes names created, renamed and removed in `directory` survive a crash.
  virtual Status sync_directory(const std::string& directory) = 0;
  /// Bytes that this user can still write under `path`.
  virtual Result<std::uint64_t> available_bytes(const std::string& path) = 0;
  virtual PathKind kind_of(const std::string& path) = 0;
  virtual FileSlots file_slots(const std::string& /*directory*/) const { return {}; }
  /// Of the file, directory or drive that is there, which is not opened for that; nothing: there is
  /// none, or the kernel does not have it.
  virtual std::optional<FileIdentity> identity_of(const std::string& /*path*/) { return {}; }
};

/// The kernel's files.
class SystemFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenFile& options) override;
  Result<std::unique_ptr<File>> open_temporary(const OpenTemporary& options) override;
  Status remove(const std::string& path) override;
  Status rename(const Rename& names) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status sync_directory(const std::string& directory) override;
  Result<std::uint64_t> available_bytes(const std::string& path) override;
  PathKind kind_of(const std::string& path) override;
  std::optional<FileIdentity> identity_of(const std::string& path) override;
};

}  // namespace towpath::sys
