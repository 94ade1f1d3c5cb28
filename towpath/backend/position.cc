#include <algorithm>

#include <towpath/backend/position.h>

namespace towpath::backend {
namespace {

bool is_dense(const Segment& segment) noexcept {
  return segment.local_stride == segment.length && segment.remote_stride == segment.length;
}

}  // namespace

Extent extent_at(Segments segments, const Position& at) noexcept {
  const Segment& segment = segments[at.segment];
  const std::uint64_t extents = is_dense(segment) ? segment.count - at.extent : 1;
  return {segment.local_address + at.extent * segment.local_stride + at.offset,
          segment.remote_address + at.extent * segment.remote_stride + at.offset,
          extents * segment.length - at.offset};
}

Position first_byte(Segments segments, Position at) noexcept {
  while (at.segment < segments.size()) {
    const Segment& segment = segments[at.segment];
    if (segment.length != 0 && at.extent < segment.count) return at;
    at = {at.segment + 1, 0, 0};
  }
  return at;
}

Position advance(Segments segments, Position at, std::uint64_t bytes) noexcept {
  while (bytes != 0 && at.segment < segments.size()) {
    const Segment& segment = segments[at.segment];
    const std::uint64_t rest = segment.length - at.offset;
    if (bytes < rest) return {at.segment, at.extent, at.offset + bytes};
    bytes -= rest;
    at = {at.segment, at.extent + 1, 0};
    const std::uint64_t whole = std::min(bytes / segment.length, segment.count - at.extent);
    at.extent += whole;
    bytes -= whole * segment.length;
    at = first_byte(segments, at);
  }
  return at;
}

std::uint64_t rest_of_extent(Segments segments, const Position& at) noexcept {
  return segments[at.segment].length - at.offset;
}

}  // namespace towpath::backend
