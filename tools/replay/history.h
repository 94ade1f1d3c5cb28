// History: how full the tiers of prefill were over the time of a run, and where blocks were found.
// Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tools/replay/message.h"
#include "tools/replay/timeline.h"

namespace towpath::tools::replay {

/// At some moment: blocks in each tier, and found in each since the start.
struct TierCounts {
  std::uint64_t host_blocks = 0, disk_blocks = 0, object_blocks = 0;
  std::uint64_t host_hits = 0, disk_hits = 0, object_hits = 0, misses = 0;
};

/// Where the blocks were found, for a summary.
void put_hits(Message& message, const TierCounts& counts);

class History {
 public:
  void see(Instant at, const TierCounts& now);
  /// Where another prefill found its blocks; how full its tiers are stays its
  /// own affair.
  void add_hits(const History& other);

  const Timeline& host_blocks() const { return host_blocks_; }
  const Timeline& disk_blocks() const { return disk_blocks_; }
  const Timeline& object_blocks() const { return object_blocks_; }
  const Timeline& host_hits() const { return host_hits_; }
  const Timeline& disk_hits() const { return disk_hits_; }
  const Timeline& object_hits() const { return object_hits_; }
  const Timeline& misses() const { return misses_; }

  void put(Message& message) const;
  static History from(const Message& message);

 private:
  TierCounts last_;
  Timeline host_blocks_{Timeline::Kind::level}, disk_blocks_{Timeline::Kind::level},
      object_blocks_{Timeline::Kind::level};
  Timeline host_hits_, disk_hits_, object_hits_, misses_;
};

}  // namespace towpath::tools::replay
