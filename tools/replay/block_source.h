// BlockSource: where prefill has its blocks from, and what that cost.
// Thread: none of its own.
#pragma once

#include <functional>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/blocks/block_handles.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/physical_layout.h>

#include "tools/replay/account.h"
#include "tools/replay/faults.h"
#include "tools/replay/history.h"
#include "tools/replay/message.h"

namespace towpath::tools::replay {

/// What the rest of prefill does while a source waits.
struct Meanwhile {
  std::function<Status()> make_room;  ///< while all slots are held, until one is free
  std::function<void()> listen{};     ///< hands what neighbours say to hear()
};

class BlockSource {
 public:
  virtual ~BlockSource() = default;

  /// Of the pool that decode pulls from.
  virtual const layout::PhysicalLayout& layout() const = 0;
  /// Brings all blocks into that pool; gives them, in order, held.
  /// Errors: exhausted (more blocks than slots), or what the moves fail with.
  virtual Result<std::vector<kv::BlockRef>> gather(const std::vector<std::uint64_t>& blocks,
                                                   const Meanwhile& meanwhile) = 0;
  /// After the last gather(): mistakes at rest that nobody has met yet are looked for.
  virtual Status settle() { return {}; }
  /// By chance, so far; what it found of them itself is among the faults of the report, too.
  virtual Account mistakes() const = 0;

  // ---- neighbours, where there are some ----
  virtual void hear(const agent::Notification& /*note*/) {}
  /// True: there is more to do at once.
  virtual bool serve() { return false; }
  /// Slots are held for them.
  virtual bool is_granting() const { return false; }

  /// So far.
  virtual TierCounts counts() const = 0;
  virtual Faults& faults() = 0;
  virtual void report(Message& summary) = 0;
};

/// Makes a block's bytes in its slot: those that its hash says (kv/pattern.h). How many.
Result<std::uint64_t> fill_block(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                 kv::SlotId slot);
/// Salted with the block's hash: no other block's bytes have it.
Result<kv::Digest> digest_of_slot(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                  kv::SlotId slot);

}  // namespace towpath::tools::replay
