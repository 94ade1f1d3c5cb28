#include <algorithm>
#include <new>
#include <utility>

#include <towpath/backend/request_progress.h>
#include <towpath/core/format.h>

namespace towpath::backend {
namespace {

std::pair<std::uint64_t, std::uint64_t> place_of(const SegmentFailure& failure) noexcept {
  return {failure.segment, failure.extent};
}

}  // namespace

void RequestProgress::start(Segments segments) noexcept {
  segments_ = segments;
  bytes_ = 0;
  failures_.clear();
  has_no_memory_ = false;
}

void RequestProgress::failed(const Position& start, std::uint64_t bytes,
                             const Status& why) noexcept {
  Position at = first_byte(segments_, start);
  try {
    while (bytes != 0 && at.segment < segments_.size()) {
      const std::uint64_t missing = std::min(bytes, rest_of_extent(segments_, at));
      if (!add(at, why)) return;
      bytes -= missing;
      at = advance(segments_, at, missing);
    }
  } catch (const std::bad_alloc&) {
    note_no_memory();
  }
}

// What falls off the end is never asked for again: the list's last place only moves forward.
bool RequestProgress::add(const Position& at, const Status& why) {
  if (failures_.capacity() < kMaxFailures + 1) failures_.reserve(kMaxFailures + 1);
  const std::pair place(at.segment, at.extent);
  const auto found = std::lower_bound(
      failures_.begin(), failures_.end(), place,
      [](const SegmentFailure& failure, const auto& wanted) { return place_of(failure) < wanted; });
  if (found != failures_.end() && place_of(*found) == place) {
    found->bytes = std::min(found->bytes, at.offset);
    return true;
  }
  if (found == failures_.end() && failures_.size() == kMaxFailures) return false;
  failures_.insert(found, {at.segment, at.extent, at.offset, why});
  if (failures_.size() > kMaxFailures) failures_.pop_back();
  return true;
}

Completion RequestProgress::close(bool stopped) noexcept {
  try {
    if (stopped || !has_no_memory_) return outcome(stopped);
  } catch (const std::bad_alloc&) {  // it has ended all the same
  }
  return {.status = no_memory_, .bytes = bytes_};
}

Completion RequestProgress::outcome(bool stopped) {
  if (stopped) {
    failures_.clear();
    return {.status = error(Code::cancelled, cat("stopped after ", bytes_, " bytes")),
            .bytes = bytes_};
  }
  if (failures_.empty()) return {.bytes = bytes_};
  const SegmentFailure& first = failures_.front();
  const bool all_named = failures_.size() < kMaxFailures;
  return {.status = error(first.status.code(),
                          cat(failures_.size(), all_named ? "" : " or more",
                              " extents are not in place; the first is extent ", first.extent,
                              " of segment ", first.segment, ", from byte ", first.bytes, " of ",
                              segments_[first.segment].length, " on"),
                          std::string(first.status.hint()))
                        .because(first.status),
          .bytes = bytes_,
          .failures = failures_};
}

}  // namespace towpath::backend
