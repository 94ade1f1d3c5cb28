#include <algorithm>

#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/shmem/heap.h>

namespace towpath::shmem {

Heap::Heap(std::uint64_t size_bytes, std::uint32_t max_blocks)
    : size_bytes_(size_bytes), max_blocks_(max_blocks), free_(size_bytes / kUnit) {}

Result<BlockPlace> Heap::allocate(const BlockShape& shape) {
  if (!is_power_of_two(shape.alignment))
    return error(Code::invalid_argument, cat("an alignment of ", shape.alignment),
                 "use a power of two");
  const auto rounded = align_up(shape.size_bytes, kUnit);
  const std::uint64_t step = std::max<std::uint64_t>(shape.alignment / kUnit, 1);
  const auto taken = rounded ? free_.take(*rounded / kUnit, step) : std::nullopt;
  if (!taken)
    return error(Code::exhausted,
                 cat("no ", shape.size_bytes, " bytes together",
                     step > 1 ? cat(" at a multiple of ", shape.alignment) : "",
                     " in the symmetric heap: ", free_bytes(), " of ", size_bytes_,
                     " bytes are free, ", free_.largest_pages() * kUnit, " of them together"),
                 "free buffers, or start with a larger heap (`towpath run --heap`, "
                 "TOWPATH_SHMEM_HEAP; programs of NVSHMEM: NVSHMEM_SYMMETRIC_SIZE)");
  const std::uint64_t units = *rounded / kUnit;
  if (unused_.empty() && rows_.size() == max_blocks_) {
    free_.give_back({.first = *taken, .pages = units});
    return error(Code::exhausted, cat("all ", max_blocks_, " symmetric blocks are in use"),
                 "free some, or allocate fewer, larger ones");
  }
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.emplace_back();
  }
  const std::uint32_t slot = unused_.back();
  unused_.pop_back();
  rows_[slot] = {.first_unit = *taken, .units = units, .size_bytes = shape.size_bytes};
  return BlockPlace{.slot = slot, .offset = *taken * kUnit, .size_bytes = shape.size_bytes};
}

void Heap::release(std::uint32_t slot) {
  TOWPATH_CHECK(slot < rows_.size() && rows_[slot].units > 0, "a block released twice");
  free_.give_back({.first = rows_[slot].first_unit, .pages = rows_[slot].units});
  rows_[slot] = {};
  unused_.push_back(slot);
}

std::optional<BlockPlace> Heap::block_at(std::uint64_t offset) const {
  for (std::uint32_t slot = 0; slot < rows_.size(); ++slot) {
    const Row& row = rows_[slot];
    const std::uint64_t begin = row.first_unit * kUnit;
    if (row.units > 0 && offset >= begin && offset - begin < row.size_bytes)
      return BlockPlace{.slot = slot, .offset = begin, .size_bytes = row.size_bytes};
  }
  return std::nullopt;
}

}  // namespace towpath::shmem
