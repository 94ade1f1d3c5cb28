// AgentCore: the regions of peers, as their cards tell them and as backends reach them.
#include <algorithm>
#include <iterator>

#include <towpath/agent/core.h>
#include <towpath/core/check.h>
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
    with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) { record->memory.drop(slot->index); });
  }
}

namespace {

constexpr std::size_t kAtOnce = 8192;  // for so many others wait, who want the same backend

/// Calls `work(part)` for up to kAtOnce entries at once.
template <typename Work>
void in_parts(std::span<const RegionEntry* const> entries,
              Work&& work) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  while (!entries.empty()) {
    const std::size_t size = std::min(entries.size(), kAtOnce);
    work(entries.first(size));
    entries = entries.subspan(size);
  }
}

}  // namespace

// On first use: most regions of a card are never asked for, and most of those by one backend only.
const MemoryRecord* AgentCore::import_by_some(Peer& peer,
                                              std::span<const RegionEntry* const> entries) {
  const MemoryRecord* useless = nullptr;
  const std::vector<Slot*> soonest_first = slots_soonest_first();
  ImportRoom room;
  in_parts(entries, [&](std::span<const RegionEntry* const> part) TOWPATH_REQUIRES(control_) {
    std::vector<const RegionEntry*> left;
    for (Slot* const slot : soonest_first) {
      import(peer, *slot, part, room);
      const auto is_left = [](const RegionEntry* entry) { return entry->record->slots == 0; };
      if (std::ranges::none_of(part, is_left)) return;
      std::vector<const RegionEntry*> refused;
      std::ranges::copy_if(part, std::back_inserter(refused), is_left);
      left = std::move(refused);
      part = left;
    }
    if (useless == nullptr) useless = part.front()->record.get();
  });
  return useless;
}

std::vector<Slot*> AgentCore::slots_soonest_first() const {
  std::vector<Slot*> order;
  for (const auto& slot : slots()) order.push_back(slot.get());
  std::ranges::sort(order,
                    [&](const Slot* a, const Slot* b) { return tells_sooner(*a, b->index); });
  return order;
}

bool AgentCore::import_rest(const PreparedSide& side, Slot& slot) {
  run::MutexLock lock(control_);
  if (closed_.load()) return false;
  std::vector<const RegionEntry*> entries;
  for (const RecordPtr& record : side.list.records()) {
    if (record->stale) return false;
    if ((record->unasked & slot_bit(slot.index)) == 0) continue;
    entries.push_back(side.peer->regions.entry_of(*record));
    TOWPATH_CHECK(entries.back() != nullptr, "a peer's record that stands, and not in its regions");
  }
  ImportRoom room;
  in_parts(entries, [&](std::span<const RegionEntry* const> part)
                        TOWPATH_REQUIRES(control_) { import(*side.peer, slot, part, room); });
  side.list.look_again();
  return true;
}

void AgentCore::import(Peer& peer, Slot& slot, std::span<const RegionEntry* const> entries,
                       ImportRoom& room) {
  const SlotMask bit = slot_bit(slot.index);
  auto& [list, records] = room;
  list.clear();
  records.clear();
  list.reserve(entries.size());
  records.reserve(entries.size());
  for (const RegionEntry* const entry : entries) {
    MemoryRecord& record = *entry->record;
    if ((record.unasked & bit) == 0) continue;
    record.unasked &= ~bit;
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
