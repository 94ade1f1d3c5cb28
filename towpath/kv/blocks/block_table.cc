#include <algorithm>
#include <bit>

#include <towpath/core/check.h>
#include <towpath/kv/blocks/block_table.h>

namespace towpath::kv {

// Half as many again: for the moods of chance, and for short searches.
std::size_t BlockTable::places_for(std::size_t entries) {
  return std::bit_ceil(std::max<std::size_t>(8, entries + entries / 2));
}

BlockTable::BlockTable(std::span<Entry> places)
    : entries_(places), shift_(64 - std::countr_zero(places.size())) {}

BlockTable::Entry* BlockTable::find(BlockHash hash) {
  for (std::size_t at = home_of(hash); entries_[at].slot != kNoSlot; at = after(at))
    if (entries_[at].hash == hash) return &entries_[at];
  return nullptr;
}

BlockTable::Entry& BlockTable::insert(BlockHash hash, SlotId slot) {
  TOWPATH_CHECK(!full(), "a table is asked whether it is full before it is filled");
  std::size_t at = home_of(hash);
  while (entries_[at].slot != kNoSlot) at = after(at);
  entries_[at] = {hash, slot, 0};
  ++size_;
  return entries_[at];
}

// Those behind the gap move up, as far as their homes allow: so no lookup ends too early.
void BlockTable::erase(BlockHash hash) {
  std::size_t gap = static_cast<std::size_t>(find(hash) - entries_.data());
  for (std::size_t at = after(gap); entries_[at].slot != kNoSlot; at = after(at)) {
    const std::size_t mask = entries_.size() - 1;
    const std::size_t from_home = (at - home_of(entries_[at].hash)) & mask;
    if (from_home < ((at - gap) & mask)) continue;
    entries_[gap] = entries_[at];
    gap = at;
  }
  entries_[gap] = Entry{};
  --size_;
}

std::size_t BlockTable::held() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_, [](const Entry& entry) { return entry.slot != kNoSlot && entry.references > 0; }));
}

}  // namespace towpath::kv
