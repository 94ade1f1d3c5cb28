#include <algorithm>
#include <utility>

#include <towpath/blockcopy/bounce_pool.h>
#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/system_region.h>

namespace towpath::blockcopy {
namespace {

constexpr std::uint64_t kPage = 4096;

template <class Region>
Result<memory::SharedRegion> registered(Result<std::shared_ptr<Region>> memory,
                                        memory::Registrar& registrar) {
  TOWPATH_TRY(std::shared_ptr<Region> made, std::move(memory));
  TOWPATH_TRY(memory::Registered<Region> with, memory::register_with(std::move(made), registrar));
  return std::make_shared<memory::Registered<Region>>(std::move(with));
}

}  // namespace

Result<BouncePool> BouncePool::create(const BounceOptions& options, memory::Registrar& registrar,
                                      const memory::SharedDevice& device) {
  const auto slot = align_up(options.slot_bytes, kPage);
  const auto total = slot ? checked_multiply(*slot, options.slots) : std::nullopt;
  if (options.slot_bytes == 0 || options.slots < 2 || !total)
    return error(Code::invalid_argument,
                 cat(options.slots, " bounce slots of ", options.slot_bytes, " bytes"),
                 "use at least 2 slots of at least a page of one layer of one block");
  const BounceOptions rounded{*slot, options.slots};
  if (device != nullptr)
    if (auto pinned = registered(memory::PinnedRegion::allocate(device, *total), registrar);
        pinned.ok())
      return BouncePool(*std::move(pinned), rounded);
  TOWPATH_TRY(auto plain, registered(memory::SystemRegion::allocate(*total), registrar));
  return BouncePool(std::move(plain), rounded);
}

BouncePool::BouncePool(memory::SharedRegion region, const BounceOptions& options)
    : region_(std::move(region)), slot_bytes_(options.slot_bytes), slots_(options.slots) {
  for (std::uint64_t slot = slots_; slot > 0; --slot) free_.push_back(slot - 1);
}

std::optional<std::uint64_t> BouncePool::take() {
  if (free_.empty()) return std::nullopt;
  const std::uint64_t slot = free_.back();
  free_.pop_back();
  peak_ = std::max(peak_, in_use());
  return slot;
}

}  // namespace towpath::blockcopy
