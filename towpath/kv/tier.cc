#include <algorithm>

#include <towpath/kv/tier.h>

namespace towpath::kv {

Result<Tier> Tier::make(std::string name, layout::PhysicalLayout layout, PolicyKind policy) {
  const std::uint64_t slots = std::min<std::uint64_t>(layout.config().num_blocks, kNoSlot);
  TOWPATH_TRY(auto blocks,
              BlockPool::make(
                  {.slots = static_cast<SlotId>(slots), .policy = policy, .exact_order = true}));
  return Tier(std::move(name), std::move(layout), std::move(blocks));
}

void Tier::quarantine(BlockHash hash, const std::string& reason) {
  ++quarantined_[reason];
  (void)blocks_->drop(hash);
}

}  // namespace towpath::kv
