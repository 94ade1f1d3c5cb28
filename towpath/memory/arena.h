// Arena: one region given out in pages.
//
// It allocates once and registers once: register the base, and every buffer is registered with it.
// It does not touch the bytes, so the base may be of any kind; a buffer's bytes are as the last
// user left them. Invariants: buffers never overlap; free extents never touch each other (they
// are merged); a request takes the smallest extent that fits, the lowest among equals. Thread:
// any.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

struct ArenaOptions {
  /// A power of two. Buffers begin at multiples of it from the base's begin, so that their
  /// addresses are aligned to it when the base's is.
  std::uint64_t page_size_bytes = 4096;
};

/// A moment's figures. In bytes, whole pages.
struct ArenaUsage {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free_bytes = 0;  ///< the largest request that would succeed
  std::uint64_t buffers = 0;             ///< given out and not yet back
};

/// Part of an arena, with one owner. Its pages go back when it dies; it keeps the base alive.
/// Moved from, it is empty. To share it as a region, move it into a std::make_shared<ArenaBuffer>.
/// Thread: immutable.
class ArenaBuffer final : public Region {
 public:
  ArenaBuffer() = default;
  ArenaBuffer(ArenaBuffer&& other) noexcept
      : state_(std::move(other.state_)), part_(std::exchange(other.part_, {})) {}
  ArenaBuffer& operator=(ArenaBuffer&& other) noexcept {
    ArenaBuffer taken(std::move(other));  // ours dies with it, at once
    std::swap(state_, taken.state_);
    std::swap(part_, taken.part_);
    return *this;
  }
  ~ArenaBuffer() override;

  /// The base's, moved; the length is what was asked for, not the pages taken.
  RegionDescriptor descriptor() const override;
  const Registration* registration() const override;
  /// Where in the base.
  const Part& part() const noexcept { return part_; }

 private:
  friend class Arena;
  struct State;
  ArenaBuffer(std::shared_ptr<State> state, const Part& part)
      : state_(std::move(state)), part_(part) {}

  std::shared_ptr<State> state_;  // null: empty
  Part part_;
};

/// A handle; copies give out pages of the same arena, which lives as long as a handle or a buffer.
class Arena {
 public:
  /// Errors: invalid_argument (no base, the page size is no power of two, the base is smaller than
  /// a page). Bytes behind the last whole page are not used.
  static Result<Arena> create(SharedRegion base, const ArenaOptions& options = {});

  /// At least one page. Cost: logarithmic in free extents; allocates.
  /// Errors: invalid_argument (size 0, or more than the arena ever has), exhausted (not now: the
  /// figures say whether too little is free, or no extent of it is long enough).
  Result<ArenaBuffer> allocate(std::uint64_t size_bytes);

  ArenaUsage usage() const;
  const SharedRegion& base() const noexcept;
  std::uint64_t page_size_bytes() const noexcept;

 private:
  explicit Arena(std::shared_ptr<ArenaBuffer::State> state) : state_(std::move(state)) {}

  std::shared_ptr<ArenaBuffer::State> state_;
};

}  // namespace towpath::memory
