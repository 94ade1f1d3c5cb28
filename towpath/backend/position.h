// Position: a byte of a request by its place, and how far the request goes on from there without a
// gap. Pure. For backends whose pieces may end anywhere and be taken up again; who only walks
// forward uses a SegmentCursor.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>

#include <towpath/backend/backend.h>

namespace towpath::backend {

using Segments = std::span<const Segment>;

/// A byte of a request: `offset` bytes into an extent of a segment.
struct Position {
  std::uint64_t segment = 0;
  std::uint64_t extent = 0;
  std::uint64_t offset = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

/// Where a position lies, and for how many bytes the request goes on without a gap on both sides.
struct Extent {
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t length = 0;
};

/// `at` must name a byte of the request.
Extent extent_at(Segments segments, const Position& at) noexcept;
/// The first position at or behind `at` that names a byte; segment == size() when there is none.
Position first_byte(Segments segments, Position at) noexcept;
/// `bytes` further; a byte of the request or its end.
Position advance(Segments segments, Position at, std::uint64_t bytes) noexcept;
/// Bytes from `at` to the end of its extent.
std::uint64_t rest_of_extent(Segments segments, const Position& at) noexcept;

}  // namespace towpath::backend
