// When to ask again: exponential back-off with jitter, so that those who were refused together do
// not come back together. Pure.
// Thread: any.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath::backends::object {

struct RetryPolicy {
  std::uint32_t max_attempts = 5;  ///< the first one included
  Duration first_delay = std::chrono::milliseconds(100);
  Duration longest_delay = std::chrono::seconds(20);

  bool allows_another(std::uint32_t attempts) const noexcept { return attempts < max_attempts; }

  /// How long to wait after `attempts` (at least 1) of them; `random` is any 64 bits. Between half
  /// of the back-off and all of it; never less than `asked_for`, which the store may have said.
  Duration delay(std::uint32_t attempts, std::uint64_t random,
                 Duration asked_for = Duration::zero()) const noexcept {
    const std::uint32_t doublings = std::min<std::uint32_t>(attempts - 1, 30);
    const Duration whole = std::min(longest_delay, first_delay * (std::int64_t{1} << doublings));
    const Duration half = whole / 2;
    const Duration jitter(
        static_cast<std::int64_t>(random % (static_cast<std::uint64_t>(half.count()) + 1)));
    return std::max(half + jitter, std::min(asked_for, longest_delay));
  }
};

}  // namespace towpath::backends::object
