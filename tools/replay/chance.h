// Chance: which mistakes (mistake.h) a replay makes when it is told to make some by chance, from a
// seed, and how many it has made. Each is to be found exactly once: who makes one sees to it that
// nobody else meets it.
// Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include <towpath/layout/layout_config.h>

#include "tools/replay/faults.h"
#include "tools/replay/message.h"
#include "tools/replay/mistake.h"

namespace towpath::tools::replay {

class Chance {
 public:
  /// `share` of the occasions, 0 to 1. The same seed gives the same decisions.
  Chance(double share, std::uint64_t seed) : share_(share), state_(seed) {}

  /// Whether to make a mistake on this occasion; never after stop().
  bool strikes();
  void stop() { share_ = 0; }
  /// One that a block of this geometry can be made with; swap_block needs `neighbour`.
  Mistake spoiling(const layout::LayoutConfig& config, bool neighbour);

  void made(Mistake mistake, std::uint64_t blocks = 1) { tally_of(mistake).made += blocks; }
  /// It went before anybody could meet it.
  void gone(Mistake mistake) { ++tally_of(mistake).gone; }

  struct Tally {
    std::uint64_t made = 0;  ///< blocks that are wrong, or requests that are not told
    std::uint64_t gone = 0;
  };
  void put(Message& message) const;

 private:
  Tally& tally_of(Mistake mistake) { return tallies_[static_cast<std::size_t>(mistake)]; }
  std::uint64_t next();

  double share_;
  std::uint64_t state_;
  std::array<Tally, 10> tallies_{};  // by Mistake
};

/// Of all processes, and what came of them.
struct Injected {
  std::uint64_t made = 0, gone = 0, found = 0;
};
using InjectedByName = std::map<std::string, Injected>;
void take_injected(const Message& summary, InjectedByName& into);
/// Takes what was made on purpose out of the faults; what was not found, or found more often than
/// it was made, is a fault of its own.
void settle_injected(InjectedByName& injected, Faults& faults);

}  // namespace towpath::tools::replay
