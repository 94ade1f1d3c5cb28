// MemoryRecord: one registered region, ours or a peer's, and what each backend made of it.
//
// Equal registrations share a record and count; the record's memory in a backend goes when the last
// of them goes, and never comes back: a later registration makes a new record, so that what was
// prepared against the old one is recognised as stale.
// Thread: `region` immutable; the rest is guarded by the agent's control mutex. `memory` is set
// before its slot's bit stands in any prepared list, and dropped under its slot's mutex besides:
// who holds that and finds the record not stale may use it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/memory/region.h>

namespace towpath::agent {

/// Backends per agent. A set of them is a SlotMask; bit i stands for the i-th created.
inline constexpr std::size_t kMaxSlots = 16;
using SlotMask = std::uint32_t;

constexpr SlotMask slot_bit(std::size_t slot) noexcept { return SlotMask{1} << slot; }

/// What backends tell peers of one region, by slot: one piece of memory, since a pool is thousands
/// of regions.
class SlotKeys {
 public:
  void add(std::size_t slot, ConstByteSpan key);
  /// Calls `visit(slot, key)` for each, in the order in which they were added.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (std::size_t at = 0; at < bytes_.size();) {
      Head head;
      std::memcpy(&head, &bytes_[at], sizeof head);
      at += sizeof head;
      visit(std::size_t{head.slot}, ConstByteSpan(bytes_.data() + at, head.size_bytes));
      at += head.size_bytes;
    }
  }
  /// Empty: it has none.
  ConstByteSpan of(std::size_t slot) const noexcept {
    ConstByteSpan found;
    each([&](std::size_t whose, ConstByteSpan key) {
      if (whose == slot) found = key;
    });
    return found;
  }

 private:
  struct Head {
    std::uint32_t slot = 0;
    std::uint32_t size_bytes = 0;
  };

  Bytes bytes_;  // of each: a Head, and the key
};

inline void SlotKeys::add(std::size_t slot, ConstByteSpan key) {
  constexpr std::size_t kUsualBytes = 128;  // two keys
  const Head head{static_cast<std::uint32_t>(slot), static_cast<std::uint32_t>(key.size())};
  const auto raw = std::as_bytes(std::span(&head, 1));
  if (bytes_.empty()) bytes_.reserve(std::max(kUsualBytes, sizeof head + key.size()));
  bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  bytes_.insert(bytes_.end(), key.begin(), key.end());
}

struct MemoryRecord {
  RegionDescriptor region;
  SlotMask slots = 0;  ///< backends in which `memory` stands
  /// Some backend let go of it: prepare again. Set under the control mutex, read under a slot's.
  std::atomic<bool> stale{false};
  std::array<std::unique_ptr<backend::Memory>, kMaxSlots> memory;

  std::array<std::uint32_t, kMaxSlots> references{};  ///< ours: registrations per slot
  /// Ours: of registrations that were let go of, but never got quiet. Else they hold the bytes.
  std::vector<memory::SharedRegion> owners;
  static constexpr std::size_t kNoRow = SIZE_MAX;
  std::size_t row = kNoRow;  ///< by which cards tell of it (own_rows.h)

  SlotMask offered = 0;  ///< slots that a card tells a key of
  SlotMask unasked = 0;  ///< a peer's: of those, the slots that have yet to import it, if need be
  SlotKeys keys;         ///< ours, of the slots in `offered`
  std::vector<std::pair<std::uint32_t, Status>> refusals;  ///< a peer's: slot, why not imported
  std::uint64_t last_list = 0;  ///< the list that found it last, by its number (resolved_list.cc)
  std::uint32_t place_in_list = 0;  ///< in that one's records

  /// Of a peer's, why the slot could not import it; null: it was not asked, or did.
  const Status* refusal_of(std::size_t slot) const noexcept {
    for (const auto& [whose, why] : refusals) {
      if (whose == slot) return &why;
    }
    return nullptr;
  }
};

using RecordPtr = std::shared_ptr<MemoryRecord>;

}  // namespace towpath::agent
