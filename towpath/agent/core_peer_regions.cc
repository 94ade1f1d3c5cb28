// AgentCore: the regions of peers, as their cards tell them and as backends reach them.
#include <algorithm>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

/// Which slot each backend of the card is here; kMaxSlots: none.
std::vector<std::size_t> AgentCore::slots_told(const Card& card) const {
  std::vector<std::size_t> slots;
  for (const Card::Backend& told : card.backends) {
    const auto slot = slot_named(told.name);
    slots.push_back(slot.ok() ? (*slot)->index : kMaxSlots);
  }
  return slots;
}

void AgentCore::update_regions(Peer& peer, const Card& card, ToldRegions told) {
  told.finish(slots_told(card), peer.reachable.load());
  const std::vector<RecordPtr> gone = peer.regions.update(std::move(told), card.partial);
  peer.generation = std::max(peer.generation, card.generation);
  // Before any memory goes: a post from now on looks at its records again. Pairs with is_current().
  memory_generation_.fetch_add(1, std::memory_order_release);
  for (const RecordPtr& record : gone) drop_import(record);
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
void AgentCore::import(Peer& peer, std::span<const RegionEntry* const> entries) {
  constexpr std::size_t kAtOnce = 4096;  // for so many others wait, who want the same backend
  for (; !entries.empty(); entries = entries.subspan(std::min(entries.size(), kAtOnce))) {
    for (const auto& slot : slots())
      import(peer, *slot, entries.first(std::min(entries.size(), kAtOnce)));
  }
}

void AgentCore::import(Peer& peer, Slot& slot, std::span<const RegionEntry* const> entries) {
  const SlotMask bit = slot_bit(slot.index);
  std::vector<backend::Import> list;
  std::vector<MemoryRecord*> records;
  list.reserve(entries.size());
  records.reserve(entries.size());
  for (const RegionEntry* const entry : entries) {
    MemoryRecord& record = *entry->record;
    if ((record.offered & ~record.asked & bit) == 0) continue;
    record.asked |= bit;
    list.push_back({.region = &record.region, .key = peer.regions.key_of(*entry, slot.index)});
    records.push_back(&record);
  }
  if (list.empty()) return;
  with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    slot.backend->import_memories(*peer.ways[slot.index].connection, list);
  });
  for (std::size_t i = 0; i < list.size(); ++i) {
    MemoryRecord& record = *records[i];
    auto& made = list[i].memory;
    if (made.ok()) {
      record.memory[slot.index] = *std::move(made);
      record.slots |= bit;
    } else {
      record.refusals.emplace_back(static_cast<std::uint32_t>(slot.index), made.status());
      tell_refusal(peer, slot, record);
    }
  }
}

// Once for a peer: its regions are many, and mostly alike. What is slow for a reason is told.
void AgentCore::tell_refusal(Peer& peer, const Slot& slot, const MemoryRecord& record) {
  if ((peer.refusal_told & slot_bit(slot.index)) != 0) return;
  peer.refusal_told |= slot_bit(slot.index);

  log_.warning("a backend cannot reach a peer's memory, others are tried",
               {{"peer", to_string(peer.identity)},
                {"backend", slot.name},
                {"region", to_string(record.region)},
                {"why", record.refusals.back().second.to_string()}});
}

}  // namespace towpath::agent
