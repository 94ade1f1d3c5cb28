// Extents of memory for vectored calls, and what is done with them to a file.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <towpath/core/bytes.h>

namespace towpath::sys {

/// Memory of this process; laid out as the kernel's iovec.
struct IoPart {
  void* data = nullptr;
  std::size_t size_bytes = 0;

  static IoPart of(ByteSpan bytes) noexcept { return {bytes.data(), bytes.size()}; }
  /// Of what is only read, as a write does.
  static IoPart to_read(ConstByteSpan bytes) noexcept {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
};

/// Memory of another process, which this one cannot load from; laid out as the kernel's iovec.
struct RemotePart {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

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

}  // namespace towpath::sys
