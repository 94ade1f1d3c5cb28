// RailShares: how much of a link's work each of its rails should take, by how fast each has been.
//
//   slice    as long as the rail is fast beside the fastest, so that all are through together
//   window   the same, but enough to keep a path busy
//   end      when a rail would be through with one more slice; when the others would be through
//            with all that is left, without it
//
// A rail of which little is known begins with short slices, and counts as the fastest. Times are in
// nanoseconds where rates are known, and mean something to each other only. A look at a link, for a
// write or a read: it changes nothing.
// Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>

#include <towpath/backends/messages/link.h>

namespace towpath::backends::messages {

class RailShares {
 public:
  RailShares(const Link& link, bool is_write, Instant now, const Timing& timing) noexcept
      : link_(link), timing_(timing), now_(now), is_write_(is_write) {
    for (const auto& rail : link.rails) {
      if (!takes_some(*rail)) continue;
      ++rails_;
      if (rail->pace.is_known()) fastest_ = std::max(fastest_, rail->pace.bytes_per_ns());
    }
  }

  /// A rail that is up and, for a write, has a grant.
  bool takes_some(const Rail& rail) const noexcept {
    return rail.is_up() && (!is_write_ || rail.may_write(now_, timing_));
  }
  std::uint64_t slice_bytes(const Rail& rail) const noexcept {
    if (rails_ == 1) return kPayloadBytes;
    return rail.pace.is_known() ? part_of(kMostSlice, kLeastSlice, rail) : kFirstSlice;
  }
  std::uint64_t window_bytes(const Rail& rail) const noexcept {
    if (rails_ == 1) return kWindowBytes;
    return rail.pace.is_known() ? part_of(kMostWindow, kLeastWindow, rail) : kLeastWindow;
  }
  double end_of(const Rail& rail, std::uint64_t slice) const noexcept {
    return static_cast<double>(rail.window.under_way() + slice) / rate(rail);
  }
  /// Whether the others should do what is left without it. Never while nothing is under way, whose
  /// answer would be the next occasion.
  bool should_wait(const Rail& rail, std::uint64_t slice) const noexcept {
    const auto is_busy = [&](const auto& one) {
      return takes_some(*one) && one->window.under_way() > 0;
    };
    return std::ranges::any_of(link_.rails, is_busy) &&
           end_of(rail, slice) > end_without(rail, slice);
  }

  /// Of a slice, where there are several: two have under way what one has alone (exchange.h says
  /// why not more).
  static constexpr std::uint64_t kMostSlice = kPayloadBytes / 2;

 private:
  double end_without(const Rail& rail, std::uint64_t slice) const noexcept {
    double left = static_cast<double>(link_.unasked);
    double others = 0;
    double soonest = kNever;  // of one that takes this slice too: there may be no more to share
    for (const Again& one : link_.again) left += static_cast<double>(one.bytes);
    for (const auto& other : link_.rails) {
      if (other.get() == &rail || !takes_some(*other)) continue;
      left += static_cast<double>(other->window.under_way());
      others += rate(*other);
      soonest = std::min(soonest, end_of(*other, slice));
    }
    return others == 0 ? kNever : std::max(left / others, soonest);
  }

  static constexpr std::uint64_t kMostWindow = kWindowBytes / 2;
  static constexpr std::uint64_t kLeastSlice = 16 * 1024;
  static constexpr std::uint64_t kFirstSlice = 64 * 1024;
  static constexpr std::uint64_t kLeastWindow = 64 * 1024;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr double kNever = 1e300;

  double rate(const Rail& rail) const noexcept {
    return rail.pace.is_known() ? rail.pace.bytes_per_ns() : fastest_ > 0 ? fastest_ : 1;
  }
  std::uint64_t part_of(std::uint64_t most, std::uint64_t least, const Rail& rail) const noexcept {
    const auto part = static_cast<std::uint64_t>(static_cast<double>(most) * rate(rail) / fastest_);
    return std::clamp(part / kPage * kPage, least, most);
  }

  const Link& link_;
  const Timing& timing_;
  const Instant now_;
  const bool is_write_;
  std::size_t rails_ = 0;  ///< that are up
  double fastest_ = 0;     ///< 0: nothing is known
};

}  // namespace towpath::backends::messages
