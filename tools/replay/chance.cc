#include "tools/replay/chance.h"

#include <vector>

namespace towpath::tools::replay {
// A Weyl sequence, mixed (as Vigna's splitmix64 does it): any seed will do, 0 too.
std::uint64_t Chance::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t mixed = (state_ ^ (state_ >> 30U)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
  return mixed ^ (mixed >> 31U);
}

bool Chance::strikes() {
  if (share_ <= 0) return false;
  constexpr double kRange = 1ULL << 53U;
  return static_cast<double>(next() >> 11U) < share_ * kRange;
}

Mistake Chance::spoiling(const layout::LayoutConfig& config, bool neighbour) {
  std::vector<Mistake> possible{Mistake::flip_bit};
  if (config.num_layers > 1) possible.push_back(Mistake::swap_layer);
  if (config.num_layers > 1 && config.outer_dim > 1) possible.push_back(Mistake::swap_kv);
  if (config.page_size > 1) possible.push_back(Mistake::swap_token);
  if (neighbour) possible.push_back(Mistake::swap_block);
  return possible[next() % possible.size()];
}

}  // namespace towpath::tools::replay
