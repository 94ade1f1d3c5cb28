// Request progress: what of one request is in place, and which extents are not.
//
// I/Os end in any order, and several may belong to one extent. The request progress adds up bytes,
// and keeps the first kMaxFailures extents, by place in the request, that miss some, each with the
// first byte that it misses: what is in place behind that is no begin of the extent. Pure.
// Invariant: a byte is counted as in place, as missing, or not at all yet; never twice. Where no
// memory is left to name what is missing, the request fails as a whole.
// Thread: loop. Cost: no allocation from start() to the first failure, then one.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/position.h>

namespace towpath::backend {

class RequestProgress {
 public:
  void start(Segments segments) noexcept;

  /// `bytes` more are in place.
  void moved(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// From `start` on, `bytes` did not move and will not; `why` is a failure.
  void failed(const Position& start, std::uint64_t bytes, const Status& why) noexcept;
  /// Some bytes will not move, and no memory was left to say which.
  void note_no_memory() noexcept { has_no_memory_ = true; }
  bool has_no_memory() const noexcept { return has_no_memory_; }
  /// Why bytes did not move that no memory was left for.
  const Status& no_memory() const noexcept { return no_memory_; }

  std::uint64_t bytes() const noexcept { return bytes_; }
  bool has_failures() const noexcept { return !failures_.empty(); }

  /// The outcome; `stopped`: some bytes were not tried because the operation was cancelled. The
  /// spans in it hold until the next start().
  Completion close(bool stopped) noexcept;

 private:
  Completion outcome(bool stopped);
  /// False: the list is full of earlier ones, so whatever comes later need not be reported.
  bool add(const Position& at, const Status& why);

  Segments segments_;
  std::uint64_t bytes_ = 0;
  // In order of (segment, extent).
  std::vector<SegmentFailure> failures_;
  bool has_no_memory_ = false;
  /// Made before it is needed.
  const Status no_memory_ = error(Code::exhausted, "no memory was left to move all bytes");
};

}  // namespace towpath::backend
