#include <utility>

#include <towpath/core/check.h>
#include <towpath/kv/disk/block_index.h>

namespace towpath::kv {

std::optional<BlockIndex::Place> BlockIndex::find(BlockHash hash) const {
  const Entry* entry = table_.find(hash);
  return entry == nullptr ? std::nullopt : std::optional(unpacked(*entry));
}

BlockIndex::Place BlockIndex::unpacked(const Entry& entry) const {
  Place place;
  place.record = {.hash = entry.hash,
                  .digest = {.algorithm = entry.algorithm, .value = entry.digest},
                  .length = entry.length};
  if (entry.salt == Salt::own_hash) place.record.digest.salt = entry.hash;
  if (entry.salt == Salt::other) place.record.digest.salt = other_salts_.at(entry.hash);
  place.segment = numbers_[entry.segment];
  place.offset = entry.page * kSegmentPage;
  place.acknowledged = entry.acknowledged;
  place.is_kept = entry.is_kept;
  return place;
}

void BlockIndex::put(const Place& place) {
  const Record& record = place.record;
  TOWPATH_CHECK(can_name(place.offset) && record.length <= kMaxBlockBytes, "a record of a segment");
  Entry entry{.hash = record.hash,
              .digest = record.digest.value,
              .segment = slot_of(place.segment),
              .page = static_cast<std::uint32_t>(place.offset / kSegmentPage),
              .length = static_cast<std::uint32_t>(record.length),
              .algorithm = record.digest.algorithm,
              .acknowledged = place.acknowledged,
              .is_kept = place.is_kept};
  const std::uint64_t salt = record.digest.salt;
  if (salt != 0) entry.salt = salt == record.hash ? Salt::own_hash : Salt::other;
  if (entry.salt == Salt::other) other_salts_[record.hash] = salt;
  if (Entry* known = table_.find(record.hash); known != nullptr) {
    if (known->salt == Salt::other && entry.salt != Salt::other) other_salts_.erase(record.hash);
    *known = entry;
  } else {
    table_.put(entry);
  }
}

bool BlockIndex::erase(BlockHash hash) {
  Entry* entry = table_.find(hash);
  if (entry == nullptr) return false;
  if (entry->salt == Salt::other) other_salts_.erase(hash);
  table_.take_out(entry);
  return true;
}

std::vector<BlockHash> BlockIndex::erase_segment(std::uint64_t number) {
  std::vector<BlockHash> gone;
  const auto slot = slots_.find(number);
  if (slot == slots_.end()) return gone;
  table_.for_each([&](const Entry& entry) {
    if (entry.segment == slot->second) gone.push_back(entry.hash);
  });
  free_slots_.push_back(slot->second);
  for (const BlockHash hash : gone) (void)erase(hash);
  slots_.erase(slot);
  return gone;
}

std::uint32_t BlockIndex::slot_of(std::uint64_t segment) {
  if (const auto known = slots_.find(segment); known != slots_.end()) return known->second;
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(numbers_.size()));
    numbers_.push_back(0);
  }
  const std::uint32_t slot = free_slots_.back();
  slots_.emplace(segment, slot);
  free_slots_.pop_back();
  numbers_[slot] = segment;
  return slot;
}

}  // namespace towpath::kv
