// Lineage: prompts are trees, and a block is of use only with all blocks before it. So only the
// last blocks of chains go, of them the one used longest ago; prefixes outlive what stands on them.
//
// Only when no end of a chain may go, another does: a cache must never refuse room it has.
// A block may come before its parent. No parameters. Cost: logarithmic.
// Thread: none of its own.
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/kv/eviction/policies.h>

namespace towpath::kv {
namespace {

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

void Lineage::insert(SlotId slot, const CachedBlock& block) {
  entries_[slot] = {block, ++clock_};
  Node& node = nodes_[block.hash];
  node.slot = slot;
  order_of(node).emplace(clock_, slot);
  if (!block.parent) return;
  Node& parent = nodes_[*block.parent];
  if (parent.children++ == 0 && parent.slot != kNoSlot)
    inner_.insert(ends_.extract({entries_[parent.slot].last_use, parent.slot}));
}

void Lineage::touch(SlotId slot) {
  Entry& entry = entries_[slot];
  Order& order = order_of(nodes_.at(entry.block.hash));
  order.erase({entry.last_use, slot});
  entry.last_use = ++clock_;
  order.emplace(entry.last_use, slot);
}

void Lineage::remove(SlotId slot) {
  const Entry& entry = entries_[slot];
  const auto node = nodes_.find(entry.block.hash);
  order_of(node->second).erase({entry.last_use, slot});
  node->second.slot = kNoSlot;
  if (node->second.children == 0) nodes_.erase(node);
  if (!entry.block.parent) return;
  const auto parent = nodes_.find(*entry.block.parent);
  if (--parent->second.children > 0) return;
  if (const SlotId above = parent->second.slot; above != kNoSlot)
    ends_.insert(inner_.extract({entries_[above].last_use, above}));
  else
    nodes_.erase(parent);
}

std::optional<SlotId> Lineage::victim(const MayGo& may_go) {
  for (const Order* order : {&ends_, &inner_})
    for (const auto& [last_use, slot] : *order)
      if (may_go(slot)) return slot;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<EvictionPolicy> make_lineage(SlotId slots) {
  return std::make_unique<Lineage>(slots);
}

}  // namespace towpath::kv
