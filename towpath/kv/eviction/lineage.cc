#include <towpath/kv/eviction/lineage.h>

namespace towpath::kv {

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

}  // namespace towpath::kv
