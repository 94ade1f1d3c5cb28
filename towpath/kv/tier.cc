#include <towpath/core/text.h>
#include <towpath/kv/tier.h>

namespace towpath::kv {

Result<Tier> Tier::make(std::string name, layout::PhysicalLayout layout, PolicyKind policy) {
  const std::uint64_t blocks = layout.config().num_blocks;
  if (blocks >= UINT32_MAX) {
    return error(Code::out_of_range, cat("a tier of ", blocks, " blocks"), "use fewer than 2^32");
  }
  return Tier(std::move(name), std::move(layout), SlotCache(static_cast<SlotId>(blocks), policy));
}

void Tier::quarantine(SlotId slot, const std::string& reason) {
  ++quarantined_[reason];
  slots_.drop(slot);
}

}  // namespace towpath::kv
