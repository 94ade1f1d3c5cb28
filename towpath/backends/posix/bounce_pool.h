// BouncePool: a fixed number of aligned buffers for direct reads into memory that is not aligned.
//
// Bounded on purpose: who finds none waits until one comes back. The memory is mapped when the
// first O_DIRECT file is registered. Thread: loop.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::posix {

class BouncePool {
 public:
  struct Buffer {
    ByteSpan bytes;  ///< page-aligned; empty: none
    explicit operator bool() const noexcept { return !bytes.empty(); }
  };
  struct Size {
    std::uint32_t buffers = 16;
    std::uint64_t buffer_bytes = 64U << 10U;  ///< a multiple of 4096
  };

  explicit BouncePool(Size size) noexcept : size_(size) {}

  /// Maps the memory; again is harmless. Errors: exhausted.
  Status prepare();
  /// A buffer, or none when all are out (or prepare() was not called).
  Buffer take() noexcept;
  void give_back(Buffer buffer) noexcept { free_.push_back(buffer); }
  const Size& size() const noexcept { return size_; }

 private:
  Size size_;
  sys::Mapping memory_;
  std::vector<Buffer> free_;  // capacity for all of them
};

}  // namespace towpath::backends::posix
