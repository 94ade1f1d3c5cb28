// StoppedPes: PEs of this host that somebody waits for and that a signal has stopped (SIGSTOP):
// they live, so no death ends the wait, and nothing says when they go on.
//
// Only a standstill that this side watched itself counts: who was stopped too, as by a whole job's
// SIGTSTP, has seen nothing meanwhile.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include <towpath/core/clock.h>

namespace towpath::shmem {

class StoppedPes {
 public:
  explicit StoppedPes(Duration timeout) noexcept : timeout_(timeout) {}

  /// One that has been stopped for the timeout. Cheap: it looks five times in a timeout, at each of
  /// them by `is_stopped(pe)`.
  template <typename IsStopped>
  std::optional<std::uint32_t> look(Instant now, std::span<const std::int32_t> awaited,
                                    const IsStopped& is_stopped) {
    if (timeout_ == Duration::max() || now < next_) return {};
    if (now - next_ > timeout_ / 5) since_.clear();  // this side was away
    next_ = now + timeout_ / 5;
    for (const std::int32_t pe : awaited) {
      const auto index = static_cast<std::uint32_t>(pe);
      if (!is_stopped(index)) {
        since_.erase(index);
      } else if (now - since_.try_emplace(index, now).first->second >= timeout_) {
        return index;
      }
    }
    return {};
  }

 private:
  const Duration timeout_;
  Instant next_;
  std::map<std::uint32_t, Instant> since_;
};

}  // namespace towpath::shmem
