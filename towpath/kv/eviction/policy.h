// EvictionPolicy: which block goes when room is needed. It decides and does nothing: it knows
// slots, hashes and the order of use, never bytes, time or threads. A cache reports to it what
// happens to its slots, and asks.
//
//   insert(slot, block) --> touch(slot) ... --> victim(may_go) == slot --> remove(slot)
//
// A new policy is a pair of files, an enumerator, and a line in make_policy(). Its first test is
// the comparison with a naive model of itself in policies_test.cc. Invariants: victim() names a
// slot that was inserted, not removed, and that may go. Thread: none of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class EvictionPolicy {
 public:
  /// Whether a slot may be given up now: what is pinned may not.
  using MayGo = std::function<bool(SlotId)>;

  virtual ~EvictionPolicy() = default;

  /// The block is in this slot from now on, and was just used.
  virtual void insert(SlotId slot, const CachedBlock& block) = 0;
  /// It was used again.
  virtual void touch(SlotId slot) = 0;
  /// It is gone: as the victim, or because it was dropped.
  virtual void remove(SlotId slot) = 0;
  /// Who should go; none when no slot may. Slots may change places in the order, so ask once per
  /// room that is needed. Cost: constant or logarithmic, and a step for each slot passed over that
  /// may not go.
  virtual std::optional<SlotId> victim(const MayGo& may_go) = 0;
};

/// For a cache with slots 0 to `slots` - 1.
std::unique_ptr<EvictionPolicy> make_policy(PolicyKind kind, SlotId slots);

}  // namespace towpath::kv
