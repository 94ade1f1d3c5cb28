#include "tools/replay/history.h"

#include <towpath/core/format.h>

namespace towpath::tools::replay {
namespace {

std::string held_in(Place tier) { return cat("history.held.", name_of(tier)); }
std::string history_of(Place place) { return cat("history.found.", name_of(place)); }
std::string found_in(Place place) { return cat("found.", name_of(place)); }

}  // namespace

void History::see(Instant at, const TierCounts& now) {
  for (const Place tier : kTiers) held_[tier].add(at, now.held[tier]);
  for (const Place place : kPlaces) found_[place].add(at, now.found[place] - last_.found[place]);
  last_ = now;
}

void History::add_found(const History& other) {
  for (const Place place : kPlaces) found_[place].add(other.found_[place]);
}

void History::put(Message& message) const {
  for (const Place tier : kTiers) message.series[held_in(tier)] = held_[tier].packed();
  for (const Place place : kPlaces) message.series[history_of(place)] = found_[place].packed();
}

History History::from(const Message& message) {
  const auto take = [&](const std::string& name, Timeline& line, Timeline::Kind kind) {
    line = Timeline::unpacked(series_of(message, name), kind);
  };
  History history;
  for (const Place tier : kTiers) take(held_in(tier), history.held_[tier], Timeline::Kind::level);
  for (const Place place : kPlaces)
    take(history_of(place), history.found_[place], Timeline::Kind::sum);
  return history;
}

void put_found(Message& summary, const ByPlace<std::uint64_t>& found) {
  for (const Place place : kPlaces) summary.figures[found_in(place)] = found[place];
}

void add_found(const Message& summary, ByPlace<std::uint64_t>& found) {
  for (const Place place : kPlaces) found[place] += figure_of(summary, found_in(place));
}

}  // namespace towpath::tools::replay
