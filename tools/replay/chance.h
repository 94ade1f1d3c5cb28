// Chance: which mistakes (mistake.h) a replay makes when it is asked to make some by chance, from a
// seed, and how many it has made. Each is to be found exactly once: who makes one sees to it that
// nobody else meets it.
// Thread: none of its own.
#pragma once

#include <cstdint>

#include <towpath/layout/layout_config.h>

#include "tools/replay/account.h"
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

  void made(Mistake mistake, std::uint64_t count = 1) { account_.of(mistake).made += count; }
  /// It went before anybody could meet it.
  void gone(Mistake mistake) { ++account_.of(mistake).gone; }
  /// Of what was made, and went; what was found is not reported here.
  const Account& account() const { return account_; }

 private:
  std::uint64_t next();

  double share_;
  std::uint64_t state_;
  Account account_;
};

}  // namespace towpath::tools::replay
