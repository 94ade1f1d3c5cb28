#include <algorithm>

#include <towpath/kv/peers/catalogue_journal.h>

namespace towpath::kv {

void CatalogueJournal::note(BlockHash hash, bool is_here) {
  if (is_here == this->is_here(hash)) return;
  if (is_here && came_.size() == kMostHere) add({first_that_came(), false});
  add({hash, is_here});
}

void CatalogueJournal::add(const Change& change) {
  ++edition_;
  if (change.is_here) {
    came_.emplace(change.hash, edition_);
    comings_.push_back({change.hash, edition_});
  } else {
    came_.erase(change.hash);
  }
  // Those that are over cost memory, so they are looked for once there are as many.
  if (comings_.size() > 2 * came_.size() + kMaxChangesReported)
    std::erase_if(comings_, [this](const Coming& coming) { return is_over(coming); });
  changes_.push_back(change);
  if (changes_.size() > kMostKept) changes_.pop_front();
}

/// The block has left since.
bool CatalogueJournal::is_over(const Coming& coming) const {
  const auto here = came_.find(coming.hash);
  return here == came_.end() || here->second != coming.edition;
}

BlockHash CatalogueJournal::first_that_came() {
  while (is_over(comings_.front())) comings_.pop_front();
  return comings_.front().hash;
}

void CatalogueJournal::settle(const std::unordered_set<BlockHash>& all) {
  for (const BlockHash hash : here())
    if (!all.contains(hash)) note(hash, false);
  for (const BlockHash hash : all)
    if (came_.size() < kMostHere) note(hash, true);
}

std::vector<BlockHash> CatalogueJournal::here() const {
  std::vector<BlockHash> all;
  all.reserve(came_.size());
  for (const auto& [hash, edition] : came_) all.push_back(hash);
  return all;
}

/// What one message says is never too much.
bool CatalogueJournal::covers(std::uint64_t edition) const {
  return edition <= edition_ && edition_ - edition <= changes_.size() &&
         edition_ - edition <= std::max(came_.size(), kMaxChangesReported);
}

std::vector<CatalogueChanges> CatalogueJournal::since(std::uint64_t edition) const {
  std::vector<CatalogueChanges> all;
  if (covers(edition))
    for (std::uint64_t from = edition; from < edition_; from = all.back().to)
      all.push_back(between(from, std::min(edition_, from + kMaxChangesReported)));
  if (all.empty()) all.push_back({.from = edition_, .to = edition_});
  return all;
}

/// Of each block the last that was so.
CatalogueChanges CatalogueJournal::between(std::uint64_t from, std::uint64_t to) const {
  CatalogueChanges reported{.from = from, .to = to};
  const std::uint64_t first = edition_ - changes_.size();
  std::unordered_set<BlockHash> seen;
  for (std::uint64_t at = to; at > from; --at) {
    const Change& change = changes_[at - 1 - first];
    if (seen.insert(change.hash).second)
      (change.is_here ? reported.stored : reported.lost).push_back(change.hash);
  }
  return reported;
}

}  // namespace towpath::kv
