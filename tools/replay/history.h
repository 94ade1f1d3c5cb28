// History: how full the tiers of prefill were over the time of a run, and where blocks were found.
// Thread: none of its own.
#pragma once

#include <cstdint>

#include "tools/replay/message.h"
#include "tools/replay/place.h"
#include "tools/replay/timeline.h"

namespace towpath::tools::replay {

/// At some moment: blocks in each tier, and blocks found in each place since the start.
struct TierCounts {
  ByPlace<std::uint64_t> held;  ///< of the tiers
  ByPlace<std::uint64_t> found;
};

/// Where blocks were found, in a summary.
void put_found(Message& summary, const ByPlace<std::uint64_t>& found);
void add_found(const Message& summary, ByPlace<std::uint64_t>& found);

class History {
 public:
  void see(Instant at, const TierCounts& now);
  /// Where another prefill found its blocks; how full its tiers are stays its
  /// own affair.
  void add_found(const History& other);

  const Timeline& held(Place tier) const { return held_[tier]; }
  const Timeline& found(Place place) const { return found_[place]; }

  void put(Message& message) const;
  static History from(const Message& message);

 private:
  TierCounts last_;
  ByPlace<Timeline> held_{Timeline(Timeline::Kind::level)};
  ByPlace<Timeline> found_{Timeline(Timeline::Kind::sum)};
};

}  // namespace towpath::tools::replay
