// Extents of memory for vectored calls.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace towpath::sys
