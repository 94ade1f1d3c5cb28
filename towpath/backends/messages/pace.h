// Pace: how fast a rail moves bytes, as its answers show: the time that it was busy, by the bytes.
//
// What was measured long ago counts less: each time that so many bytes have moved, all of it counts
// half. It knows no clock. Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath::backends::messages {

class Pace {
 public:
  /// The rail was busy for so long, and then so many bytes were answered for.
  void add(std::uint64_t bytes, Duration busy) noexcept {
    bytes_ += static_cast<double>(bytes);
    busy_ns_ += static_cast<double>(std::max<std::int64_t>(busy.count(), 1));
    if (bytes_ < kMemoryBytes) return;
    bytes_ /= 2;
    busy_ns_ /= 2;
  }
  /// Enough was measured to go by.
  bool is_known() const noexcept { return bytes_ >= kLeastBytes; }
  /// Meaningless unless it is known.
  double bytes_per_ns() const noexcept { return bytes_ / busy_ns_; }

 private:
  static constexpr double kMemoryBytes = 8 * 1024 * 1024;
  static constexpr double kLeastBytes = 128 * 1024;

  double bytes_ = 0;
  double busy_ns_ = 0;
};

}  // namespace towpath::backends::messages
