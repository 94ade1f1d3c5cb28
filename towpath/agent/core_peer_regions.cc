// AgentCore: the regions of peers, as their cards tell them and as backends reach them.
#include <algorithm>
#include <set>
#include <span>
#include <unordered_set>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

namespace {

/// Of what is told twice the first counts.
void drop_repeats(std::vector<Card::Region>& regions) {
  const auto any_twice = [](const Card::Region& a, const Card::Region& b) {
    return !comes_before(a.region, b.region);
  };
  // In order, as agents tell them, nothing can be told twice.
  if (std::ranges::adjacent_find(regions, any_twice) == regions.end()) return;
  const auto in_order = [](const RegionDescriptor* a, const RegionDescriptor* b) {
    return comes_before(*a, *b);
  };
  std::set<const RegionDescriptor*, decltype(in_order)> seen;
  std::vector<Card::Region> kept;
  kept.reserve(regions.size());
  for (Card::Region& told : regions) {
    if (seen.contains(&told.region)) continue;
    kept.push_back(std::move(told));
    seen.insert(&kept.back().region);
  }
  regions = std::move(kept);
}

/// `slots`: which each backend of the card is here.
RecordPtr record_of(Card::Region& told, std::span<const std::size_t> slots, SlotMask reachable) {
  auto record = std::make_shared<MemoryRecord>();
  record->region = told.region;
  record->keys.reserve(told.keys.size());
  for (auto& [number, key] : told.keys) {
    const std::size_t slot = slots[number];
    if (slot == kMaxSlots) continue;
    record->keys.emplace_back(static_cast<std::uint32_t>(slot), std::move(key));
    record->offered |= slot_bit(slot) & reachable;
  }
  return record;
}

}  // namespace

/// Which slot each backend of the card is here; kMaxSlots: none.
std::vector<std::size_t> AgentCore::slots_told(const Card& card) const {
  std::vector<std::size_t> slots;
  for (const Card::Backend& told : card.backends) {
    const auto slot = slot_named(told.name);
    slots.push_back(slot.ok() ? (*slot)->index : kMaxSlots);
  }
  return slots;
}

// A full card replaces the regions, a partial one adds to them. Regions that are told again
// unchanged keep their record, and with it what was prepared against them.
void AgentCore::update_regions(Peer& peer, Card card) {
  drop_repeats(card.regions);
  RegionIndex updated;
  std::unordered_set<const MemoryRecord*> kept;
  const auto slots = slots_told(card);
  for (Card::Region& told : card.regions) {
    RecordPtr record = record_of(told, slots, peer.reachable.load());
    if (RecordPtr before = peer.regions.find_exactly(told.region)) {
      before->stale = before->keys != record->keys;
      if (!before->stale) {
        kept.insert(before.get());
        record = std::move(before);
      }
    }
    updated.add(std::move(record));
  }
  for (const RecordPtr& before : peer.regions.records()) {
    if (!card.partial && !kept.contains(before.get())) before->stale = true;
  }
  replace_regions(peer, std::move(updated), kept);
  peer.generation = std::max(peer.generation, card.generation);
}

// `kept` are in both; of the others those that are stale go.
void AgentCore::replace_regions(Peer& peer, RegionIndex updated,
                                const std::unordered_set<const MemoryRecord*>& kept) {
  // Before any memory goes: a post from now on looks at its records again. Pairs with is_current().
  memory_generation_.fetch_add(1, std::memory_order_release);
  for (const RecordPtr& before : peer.regions.records()) {
    if (kept.contains(before.get())) continue;
    before->stale ? drop_import(before) : updated.add(before);
  }
  peer.regions = std::move(updated);
}

// The peer took a region back: what still moves its bytes ends as failed.
void AgentCore::drop_import(const RecordPtr& record) {
  const Status why =
      error(Code::not_found, cat(to_string(record->region), " is no longer in the peer's card"));
  const auto touches = [&](const TransferCore& transfer) { return transfer.touches(record.get()); };
  for (const auto& slot : slots()) {
    if ((record->slots & slot_bit(slot->index)) == 0) continue;
    if (!make_quiet(*slot, touches, Outcome::failed, why)) {
      unquiet_.push_back(record);
      continue;
    }
    with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) { record->memory[slot->index].reset(); });
  }
}

// On first use: most regions of a card are never asked for.
Status AgentCore::import(Peer& peer, MemoryRecord& record) {
  for (const auto& slot : slots()) {
    const SlotMask bit = slot_bit(slot->index);
    if ((record.offered & ~record.slots & bit) == 0) continue;
    if (!record.refusals[slot->index].ok()) continue;  // asked before
    auto made = with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) {
      return slot->backend->import_memory(*peer.ways[slot->index].connection, record.region,
                                          record.key_for(slot->index));
    });
    if (made.ok()) {
      record.memory[slot->index] = *std::move(made);
      record.slots |= bit;
    } else {
      record.refusals[slot->index] = made.status();
      tell_refusal(peer, *slot, record);
    }
  }
  if (record.slots != 0) return {};
  Status last;
  for (const auto& slot : slots()) {
    if (!record.refusals[slot->index].ok()) last = record.refusals[slot->index];
  }
  return error(Code::unavailable, cat(to_string(record.region), " of ", to_string(peer.identity),
                                      " can be reached by no backend"))
      .because(last);
}

// Once for a peer: its regions are many, and mostly alike. What is slow for a reason is told.
void AgentCore::tell_refusal(Peer& peer, const Slot& slot, const MemoryRecord& record) {
  if ((peer.refusal_told & slot_bit(slot.index)) != 0) return;
  peer.refusal_told |= slot_bit(slot.index);

  log_.warning("a backend cannot reach a peer's memory, others are tried",
               {{"peer", to_string(peer.identity)},
                {"backend", slot.name},
                {"region", to_string(record.region)},
                {"why", record.refusals[slot.index].to_string()}});
}

}  // namespace towpath::agent
