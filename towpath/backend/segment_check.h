// The look at a request before its first byte moves. Pure. Thread: any.
#pragma once

#include <towpath/backend/position.h>

namespace towpath::backend {

/// `why`, with the place in the request before it.
Status error_of_segment(std::uint64_t index, const Status& why);
Status lacks_a_memory();

/// Asks `check(segment)` for the first of each row of segments between the same two memories.
/// Errors: invalid_argument (a memory is missing), and those of `check`.
template <typename Check>
Status check_segments(Segments segments, const Check& check) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const bool same = i != 0 && segment.local == segments[i - 1].local &&
                      segment.remote == segments[i - 1].remote;
    if (same) continue;
    const bool whole = segment.local != nullptr && segment.remote != nullptr;
    if (const Status bad = whole ? check(segment) : lacks_a_memory(); !bad.ok())
      return error_of_segment(i, bad);
  }
  return {};
}

}  // namespace towpath::backend
