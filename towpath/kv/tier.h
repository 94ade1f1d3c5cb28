// Tier: one level of memory that holds whole blocks: which block lies in which slot (SlotCache),
// and where a slot's bytes are (PhysicalLayout). It moves nothing: it tells where blocks lie, and
// the bytes are moved by the agent's transfers.
//
// A block enters a tier by reserve(), its bytes by a transfer, and becomes visible by publish()
// with its digest. Whoever brings it back checks the digest; what does not match is quarantined:
// never found again, and counted with the reason. Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <towpath/core/descriptor.h>
#include <towpath/kv/slot_cache.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

class Tier {
 public:
  /// As many slots as the layout has blocks. Errors: out_of_range (more than 2^32).
  static Result<Tier> make(std::string name, layout::PhysicalLayout layout,
                           PolicyKind policy = PolicyKind::lru);

  const std::string& name() const noexcept { return name_; }
  MemoryKind kind() const noexcept { return layout_.location().kind; }
  const layout::PhysicalLayout& layout() const noexcept { return layout_; }
  SlotCache& slots() noexcept { return slots_; }
  const SlotCache& slots() const noexcept { return slots_; }

  /// The block in this slot is not what its digest says, or could not be read: it goes, counted
  /// under `reason` ("digest mismatch", "short read").
  void quarantine(SlotId slot, const std::string& reason);
  const std::map<std::string, std::uint64_t>& quarantined() const noexcept { return quarantined_; }

 private:
  Tier(std::string name, layout::PhysicalLayout layout, SlotCache slots)
      : name_(std::move(name)), layout_(std::move(layout)), slots_(std::move(slots)) {}

  std::string name_;
  layout::PhysicalLayout layout_;
  SlotCache slots_;
  std::map<std::string, std::uint64_t> quarantined_;
};

}  // namespace towpath::kv
