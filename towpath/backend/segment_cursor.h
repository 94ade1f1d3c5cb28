// SegmentCursor: where in a request's segments the next byte is.
//
// It walks extent after extent, in the order of the request, and passes over what has no bytes.
// It moves nothing itself. Invariant: unless done(), left() is at least 1. Thread: loop.
#pragma once

#include <cstdint>
#include <span>

#include <towpath/backend/backend.h>

namespace towpath::backend {

class SegmentCursor {
 public:
  /// `segments` must stay unchanged while the cursor is used.
  void start(std::span<const Segment> segments) noexcept {
    segments_ = segments;
    index_ = extent_ = offset_ = 0;
    pass_over_empty();
  }

  bool done() const noexcept { return index_ == segments_.size(); }

  // The rest holds unless done().
  const Segment& segment() const noexcept { return segments_[index_]; }
  std::uint64_t index() const noexcept { return index_; }
  std::uint64_t extent() const noexcept { return extent_; }
  /// Bytes of this extent that lie behind the cursor.
  std::uint64_t offset() const noexcept { return offset_; }
  /// Bytes of this extent that lie before it.
  std::uint64_t left() const noexcept { return segment().length - offset_; }
  std::uint64_t local_address() const noexcept {
    return segment().local_address + extent_ * segment().local_stride + offset_;
  }
  std::uint64_t remote_address() const noexcept {
    return segment().remote_address + extent_ * segment().remote_stride + offset_;
  }

  /// `bytes` is at most left().
  void advance(std::uint64_t bytes) noexcept {
    offset_ += bytes;
    if (offset_ == segment().length) skip_extent();
  }
  void skip_extent() noexcept {
    offset_ = 0;
    if (++extent_ == segment().count) skip_segment();
  }
  void skip_segment() noexcept {
    extent_ = offset_ = 0;
    ++index_;
    pass_over_empty();
  }

 private:
  void pass_over_empty() noexcept {
    while (!done() && (segment().length == 0 || segment().count == 0)) ++index_;
  }

  std::span<const Segment> segments_;
  std::uint64_t index_ = 0;
  std::uint64_t extent_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace towpath::backend
