// Tier: one level of memory that holds whole blocks in slots: which block lies in which slot and
// who holds it (BlockPool), and where a slot's bytes are (PhysicalLayout). It moves nothing: it
// reports where blocks lie, and the bytes are moved by the agent's transfers.
//
// A block becomes visible when it is registered, with its digest. Whoever brings it back checks the
// digest; what does not match is quarantined: never found again, and counted with the reason.
// Thread: none of its own; that of blocks(): any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <towpath/core/descriptor.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

class Tier {
 public:
  /// As many slots as the layout has blocks. The order of eviction is exact: one lock.
  /// Errors: invalid_argument (no slots, or more than a pool can have).
  static Result<Tier> make(std::string name, layout::PhysicalLayout layout,
                           PolicyKind policy = PolicyKind::lru);

  const std::string& name() const noexcept { return name_; }
  MemoryKind kind() const noexcept { return layout_.location().kind; }
  const layout::PhysicalLayout& layout() const noexcept { return layout_; }
  BlockPool& blocks() noexcept { return *blocks_; }
  const BlockPool& blocks() const noexcept { return *blocks_; }

  /// The block is not what its digest says, or could not be read: it goes, counted
  /// under `reason` ("digest mismatch", "short read").
  void quarantine(BlockHash hash, const std::string& reason);
  const std::map<std::string, std::uint64_t>& quarantined() const noexcept { return quarantined_; }

 private:
  Tier(std::string name, layout::PhysicalLayout layout, std::unique_ptr<BlockPool> blocks)
      : name_(std::move(name)), layout_(std::move(layout)), blocks_(std::move(blocks)) {}

  std::string name_;
  layout::PhysicalLayout layout_;
  std::unique_ptr<BlockPool> blocks_;
  std::map<std::string, std::uint64_t> quarantined_;
};

}  // namespace towpath::kv
