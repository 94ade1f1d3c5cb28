// BouncePool: the bounce buffers of a transfer manager: one registered region in equal slots.
//
// It is bounded: without a free slot take() gives nothing, and the work waits. That is the back
// pressure of two-hop transfers.
// Invariants: a slot is held by one user; the pool outlives its slots. Thread: loop.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/registrar.h>

namespace towpath::blockcopy {

struct BounceOptions {
  std::uint64_t slot_bytes = 4 * kMiB;  ///< rounded up to pages
  std::uint64_t slots = 8;              ///< at least 2, so that both hops may be under way
};

class BouncePool {
 public:
  /// Memory registered with `registrar`, which outlives the pool: pinned for `device` where there
  /// is one and it can be had, else system memory. Errors: invalid_argument (sizes), exhausted, or
  /// Registrar::register_region's.
  static Result<BouncePool> create(const BounceOptions& options, memory::Registrar& registrar,
                                   const memory::SharedDevice& device = nullptr);

  /// The index of a free slot, or nothing.
  std::optional<std::uint64_t> take();
  void give_back(std::uint64_t slot) { free_.push_back(slot); }

  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  std::uint64_t slots() const noexcept { return slots_; }
  std::uint64_t in_use() const noexcept { return slots_ - free_.size(); }
  /// The most that ever were.
  std::uint64_t peak() const noexcept { return peak_; }
  bool is_pinned() const { return region_->kind() == MemoryKind::pinned; }
  const memory::SharedRegion& region() const noexcept { return region_; }

 private:
  BouncePool(memory::SharedRegion region, const BounceOptions& options);

  memory::SharedRegion region_;
  std::uint64_t slot_bytes_;
  std::uint64_t slots_;
  std::uint64_t peak_ = 0;
  std::vector<std::uint64_t> free_;
};

}  // namespace towpath::blockcopy
