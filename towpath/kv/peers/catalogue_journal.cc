#include <algorithm>

#include <towpath/kv/peers/catalogue_journal.h>

namespace towpath::kv {

void CatalogueJournal::note(BlockHash hash, bool is_here) {
  if (is_here && here_.size() == kMostHere) return;
  const bool is_change = is_here ? here_.insert(hash).second : here_.erase(hash) > 0;
  if (!is_change) return;
  ++edition_;
  changes_.push_back({hash, is_here});
  if (changes_.size() > kMostKept) changes_.pop_front();
}

void CatalogueJournal::settle(const std::unordered_set<BlockHash>& all) {
  std::vector<BlockHash> gone;
  for (const BlockHash hash : here_)
    if (!all.contains(hash)) gone.push_back(hash);
  for (const BlockHash hash : gone) note(hash, false);
  for (const BlockHash hash : all) note(hash, true);
}

/// What one message says is never too much.
bool CatalogueJournal::covers(std::uint64_t edition) const {
  return edition <= edition_ && edition_ - edition <= changes_.size() &&
         edition_ - edition <= std::max(here_.size(), kMaxChangesReported);
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
