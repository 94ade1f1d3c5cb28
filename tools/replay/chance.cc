#include "tools/replay/chance.h"

#include <vector>

#include <towpath/core/text.h>

namespace towpath::tools::replay {
namespace {

// In names of figures: "made.swap-kv".
constexpr std::string_view kMade = "made.";
constexpr std::string_view kGone = "gone.";

}  // namespace

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

void Chance::put(Message& message) const {
  for (const Mistake mistake : all_mistakes()) {
    const Tally& tally = tallies_[static_cast<std::size_t>(mistake)];
    if (tally.made > 0) message.figures[cat(kMade, name_of(mistake))] += tally.made;
    if (tally.gone > 0) message.figures[cat(kGone, name_of(mistake))] += tally.gone;
  }
}

void take_injected(const Message& summary, InjectedByName& into) {
  for (const auto& [name, count] : summary.figures) {
    if (name.starts_with(kMade)) into[name.substr(kMade.size())].made += count;
    if (name.starts_with(kGone)) into[name.substr(kGone.size())].gone += count;
  }
}

void settle_injected(InjectedByName& injected, Faults& faults) {
  for (auto& [name, one] : injected) {
    one.found = faults.take(name);
    if (one.found == one.made - one.gone) continue;
    faults.add(cat("unnoticed: ", name, " was made ", one.made, " times, ", one.gone,
                   " went before anybody met them, and ", one.found, " were found"));
  }
}

}  // namespace towpath::tools::replay
