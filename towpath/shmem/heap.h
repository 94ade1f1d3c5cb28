// Heap: where symmetric blocks lie. Every PE runs it with the same calls and gets the same answers,
// so that no PE has to be asked.
//
// It knows offsets only, neither memory nor other PEs.
// Invariants: the same calls in the same order give the same blocks. Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/memory/free_extents.h>
#include <towpath/shmem/block.h>

namespace towpath::shmem {

struct BlockShape {
  std::uint64_t size_bytes = 0;  ///< at least 1
  std::uint64_t alignment = 64;  ///< of the offset; a power of two
};

class Heap {
 public:
  static constexpr std::uint64_t kUnit = 64;

  Heap(std::uint64_t size_bytes, std::uint32_t max_blocks);

  /// Errors: exhausted (no extent, or no slot, is free; the message has the figures),
  /// invalid_argument (alignment).
  Result<BlockPlace> allocate(const BlockShape& shape);
  /// `slot` is of a living block.
  void release(std::uint32_t slot);

  /// The living block that holds this byte.
  std::optional<BlockPlace> block_at(std::uint64_t offset) const;

  std::uint64_t free_bytes() const noexcept { return free_.free_pages() * kUnit; }
  std::uint64_t size() const noexcept { return size_bytes_; }

 private:
  struct Row {
    std::uint64_t first_unit = 0;
    std::uint64_t units = 0;  // 0: the slot is free
    std::uint64_t size_bytes = 0;
  };

  const std::uint64_t size_bytes_;
  const std::uint32_t max_blocks_;
  memory::internal::FreeExtents free_;
  std::vector<Row> rows_;              // by slot
  std::vector<std::uint32_t> unused_;  // free slots among them, the next one last
};

}  // namespace towpath::shmem
