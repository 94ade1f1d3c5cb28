// OpenFile: a file that I/Os go to, shared by all regions of it.
//
// It owns descriptors of its own (duplicates): a user may close theirs too early, and another file
// that then gets the number is not hit. For O_DIRECT files there are two: the direct one, and a
// buffered twin for what is not aligned. A file with O_APPEND is opened again without it, or takes
// no writes: they would not go to their offsets.
//
// The rule that keeps the two coherent: O_DIRECT writes and buffered writes of one file are never
// in flight together. The first unaligned write turns the file's writes to the twin for good
// (writes_buffered), and starts when the last direct one has ended. Direct reads need no such rule:
// the kernel writes dirty pages of the range back first (mm/filemap.c,
// filemap_write_and_wait_range).
//
// Invariants: the descriptors live as long as this does. Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/backend/open_descriptor.h>
#include <towpath/backends/posix/counters.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/file_engine.h>

namespace towpath::backends::posix {

class OpenFile {
 public:
  struct Parts {
    std::string name;  ///< for messages
    backend::OpenDescriptor identity;
    sys::Fd main;                 ///< as the user opened it, but for O_APPEND
    sys::Fd twin;                 ///< without O_DIRECT; only for O_DIRECT files
    std::uint64_t alignment = 1;  ///< of direct I/O; 1: the file is buffered
    bool readable = true;
    bool writable = true;
    std::string direct_refusal;         ///< why an O_DIRECT file goes through the page cache anyway
    std::string twin_refusal;           ///< why an O_DIRECT file has no twin
    std::string append_refusal;         ///< why a file with O_APPEND takes no writes
    sys::FileEngine* engine = nullptr;  ///< outlives the file; null in tests of what needs none
    Held held;
  };

  struct Source {
    int fd = -1;
    std::string name;            ///< a path for messages, or empty
    std::string direct_refusal;  ///< as in Parts
  };
  /// Errors: invalid_argument (not open, or neither a file nor a device), exhausted.
  static Result<std::shared_ptr<OpenFile>> open(const Source& source, sys::FileEngine& engine,
                                                Counters& counters);

  explicit OpenFile(Parts parts);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  const std::string& name() const noexcept { return parts_.name; }
  const backend::OpenDescriptor& identity() const noexcept { return parts_.identity; }
  bool direct() const noexcept { return parts_.alignment > 1; }
  std::uint64_t alignment() const noexcept { return parts_.alignment; }
  bool allows(bool write) const noexcept { return write ? parts_.writable : parts_.readable; }
  /// Why allows() is false.
  Status access_refusal(bool write) const;
  bool has_twin() const noexcept { return static_cast<bool>(parts_.twin); }

  /// Whether it is O_DIRECT and has no other way for what is not aligned; then the reason.
  bool refuses_unaligned() const noexcept { return direct() && !has_twin(); }
  Status unaligned_refusal() const;

  /// The descriptor for an I/O of this path.
  const sys::EngineFile& engine_file(Path path) const noexcept {
    return path == Path::buffered && has_twin() ? twin_ : main_;
  }
  /// Whether its file system can determine what the page cache has, as far as is known.
  bool reports_what_is_cached() const noexcept { return reports_what_is_cached_; }
  void cannot_report_what_is_cached() noexcept { reports_what_is_cached_ = false; }
  /// Bytes in the file now. Costs a system call.
  Result<std::uint64_t> size() const;

  /// Whether writes go through the twin from now on.
  bool writes_buffered() const noexcept { return writes_buffered_; }
  void buffer_writes() noexcept { writes_buffered_ = true; }
  void enter_direct_write() noexcept { ++direct_writes_; }
  void leave_direct_write() noexcept { --direct_writes_; }
  bool has_direct_writes() const noexcept { return direct_writes_ != 0; }

  /// "O_DIRECT in units of 512 B, the rest of reads through bounce buffers, ...".
  std::string describe() const;

 private:
  sys::EngineFile enlist(int fd);

  Parts parts_;
  sys::EngineFile main_;
  sys::EngineFile twin_;
  std::string slot_refusal_;
  bool reports_what_is_cached_ = true;
  bool writes_buffered_ = false;
  std::uint32_t direct_writes_ = 0;
};

}  // namespace towpath::backends::posix
