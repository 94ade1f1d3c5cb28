#include "tools/replay/account.h"

#include <algorithm>
#include <vector>

#include <towpath/core/format.h>

namespace towpath::tools::replay {
namespace {

constexpr std::array kFigures{&Tally::made, &Tally::gone, &Tally::found};

void add_to(Tally& sum, const Tally& more) {
  for (const auto figure : kFigures) sum.*figure += more.*figure;
}

// Counts only grow: the larger one is the later.
void take_later(Tally& known, const Tally& reported) {
  for (const auto figure : kFigures) known.*figure = std::max(known.*figure, reported.*figure);
}

}  // namespace

void Account::add(const Account& other) {
  for (const Mistake mistake : all_mistakes()) add_to(of(mistake), other.of(mistake));
}

void Account::hear(const Account& word) {
  for (const Mistake mistake : all_mistakes())
    (is_met_by_decode(mistake) ? add_to : take_later)(of(mistake), word.of(mistake));
}

void Account::miss(const Account& word) {
  for (const Mistake mistake : all_mistakes())
    if (is_met_by_decode(mistake)) of(mistake).gone += word.of(mistake).made;
}

void Account::bury(const std::string& name, Faults& faults) {
  for (const Mistake mistake : all_mistakes()) {
    Tally& tally = of(mistake);
    if (is_met_by_decode(mistake)) continue;
    if (tally.found > 0)
      faults.add(std::string(name_of(mistake)), tally.found, cat("found by ", name, ", who died"));
    if (tally.made > tally.found) tally.gone = tally.made - tally.found;
  }
}

void Account::put(Message& message, const std::string& name) const {
  if (is_empty()) return;
  std::vector<std::uint64_t>& numbers = message.series[name];
  for (const Tally& tally : tallies_)
    for (const auto figure : kFigures) numbers.push_back(tally.*figure);
}

Account Account::from(const Message& message, const std::string& name) {
  const std::vector<std::uint64_t> numbers = series_of(message, name);
  Account account;
  if (numbers.size() != account.tallies_.size() * kFigures.size()) return account;
  auto next = numbers.begin();
  for (Tally& tally : account.tallies_)
    for (const auto figure : kFigures) tally.*figure = *next++;
  return account;
}

void settle(Account& mistakes, Faults& faults) {
  for (const Mistake mistake : all_mistakes()) {
    Tally& tally = mistakes.of(mistake);
    if (tally.made == 0) continue;  // what is found then is a fault under its own name
    tally.found = faults.take(std::string(name_of(mistake)));
    if (tally.found == tally.made - tally.gone) continue;
    faults.add(cat("unnoticed: ", name_of(mistake), " was made ", tally.made, " times, ",
                   tally.gone, " went before anybody met them, and ", tally.found, " were found"));
  }
}

}  // namespace towpath::tools::replay
