// Lineage: prompts are trees, and a block is of use only with all blocks before it. So only the
// last blocks of chains go, of them the one used longest ago; prefixes outlive what stands on them.
//
// Only when no end of a chain may go, another does: a cache must never refuse room it has.
// A block may come before its parent. No parameters. Cost: logarithmic.
// Thread: none of its own.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {

class Lineage final : public EvictionPolicy {
 public:
  explicit Lineage(SlotId slots) : entries_(slots) {}

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  using Order = std::set<std::pair<std::uint64_t, SlotId>>;  // by last use
  struct Entry {
    CachedBlock block;
    std::uint64_t last_use = 0;
  };
  /// Of one hash, here or not.
  struct Node {
    SlotId slot = kNoSlot;
    std::uint32_t children = 0;  // that are here
  };
  Order& order_of(const Node& node) { return node.children == 0 ? ends_ : inner_; }

  std::vector<Entry> entries_;
  std::unordered_map<BlockHash, Node> nodes_;
  Order ends_;   // blocks that nothing here stands on
  Order inner_;  // all others
  std::uint64_t clock_ = 0;
};

}  // namespace towpath::kv
