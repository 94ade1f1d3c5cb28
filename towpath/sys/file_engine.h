// FileEngine: moves bytes between files and memory. It is the seam between deciding which I/O
// happens and making it happen. Two real ones stand behind it, io_uring (uring_file_engine.h) and a
// few threads (run/thread_file_engine.h); a test drives a third.
//
// It knows only ids. It neither continues what comes back short nor repeats what was interrupted:
// the result says so. Invariants: those of IoEngine. Thread: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/io_engine.h>
#include <towpath/sys/io_part.h>

namespace towpath::sys {

inline constexpr int kNoSlot = -1;

/// A file as an engine knows it.
struct EngineFile {
  int fd = -1;
  int slot = kNoSlot;  ///< in the engine's table of registered files
};

struct FileIo {
  /// sync: what was written before is on the disk when it has ended (fdatasync). It orders nothing.
  enum class Kind : std::uint8_t { read, write, sync };
  std::uint64_t id = 0;
  Kind kind = Kind::read;
  bool buffered = false;  ///< through the page cache
  EngineFile file;
  std::uint64_t offset = 0;
  std::span<const IoPart> parts;  ///< one at least, of a sync none; unchanged until the id is back
  /// The registered buffer that the part lies in; only with a single part.
  int buffer_slot = kNoSlot;
};

/// IoDone::result: bytes, or a negative errno.
class FileEngine : public IoEngine {
 public:
  /// "io_uring" or "threads".
  virtual std::string_view name() const = 0;
  /// In words, and for how many.
  virtual std::string describe() const = 0;

  /// Informs the kernel of a file, or of memory, beforehand, so that each I/O is cheaper.
  /// Errors: unsupported (this engine has no such table), exhausted (it is full, or memlock is).
  virtual Result<int> add_file(int fd) = 0;
  virtual void remove_file(int slot) = 0;
  virtual Result<int> add_buffer(ByteSpan memory) = 0;
  virtual void remove_buffer(int slot) = 0;

  /// Reads what the page cache has of one read, in one system call and without waiting for a disk.
  /// Bytes, or a negative errno: EAGAIN where it has nothing, EOPNOTSUPP where the file system
  /// cannot determine.
  virtual std::int32_t read_cached(const FileIo& io);

  /// Takes an I/O in; it need not start before flush(). No system call.
  virtual void submit(const FileIo& io) = 0;
};

}  // namespace towpath::sys
