// Engine: the seam between deciding which I/O happens (dispatcher.h) and making it happen. Two real
// ones stand behind it, io_uring and a few threads; a test drives a third.
//
// It knows no operations and no regions, only ids. Invariants: those of PieceEngine. Thread: loop.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <towpath/backend/piece_engine.h>
#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/io_part.h>

namespace towpath::backends::posix {

inline constexpr int kNoSlot = -1;

/// A file as an engine knows it.
struct EngineFile {
  int fd = -1;
  int slot = kNoSlot;  ///< in the engine's table of registered files
};

struct Io {
  std::uint64_t id = 0;
  bool write = false;
  bool buffered = false;  ///< through the page cache
  EngineFile file;
  std::uint64_t offset = 0;
  std::span<const sys::IoPart> parts;  ///< at least one; unchanged until the id comes back
  /// The registered buffer that the part lies in; only with a single part.
  int buffer_slot = kNoSlot;
};

using Done = backend::PieceDone;  ///< its result: bytes, or a negative errno

class Engine : public backend::PieceEngine {
 public:
  /// "io_uring" or "threads".
  virtual std::string_view name() const = 0;
  /// In words, and for how many.
  virtual std::string describe() const = 0;

  /// Tells the kernel of a file, or of memory, beforehand, so that each I/O is cheaper.
  /// Errors: unsupported (this engine has no such table), exhausted (it is full, or memlock is).
  virtual Result<int> add_file(int fd) = 0;
  virtual void remove_file(int slot) = 0;
  virtual Result<int> add_buffer(ByteSpan memory) = 0;
  virtual void remove_buffer(int slot) = 0;

  /// Reads what the page cache has of one read, in one system call and without waiting for a disk.
  /// Bytes, or a negative errno: EAGAIN where it has nothing, EOPNOTSUPP where the file system
  /// cannot tell.
  virtual std::int32_t read_cached(const Io& io);

  /// Takes an I/O in; it need not start before flush(). No system call.
  virtual void submit(const Io& io) = 0;
};

}  // namespace towpath::backends::posix
