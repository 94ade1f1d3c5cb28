// The mistakes that prefill's tiers make by chance. Each is met once: who is served a block that
// was spoiled finds it, and nobody else can.
#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/file.h>

#include "tools/replay/cache.h"

namespace towpath::tools::replay {
namespace {

constexpr std::uint64_t kNoCut = UINT64_MAX;

}  // namespace

// Of the blocks that were just made for a request; they are found no more, so that only this
// request's decode meets them.
Status Cache::spoil_by_chance() {
  for (std::size_t i = 0; i < made_.size(); ++i) {
    if (!chance_.strikes()) continue;
    const bool has_neighbour = i + 1 < made_.size();
    const Mistake mistake = chance_.spoiling(host_.layout().config(), has_neighbour);
    const bool both = mistake == Mistake::swap_block;
    TOWPATH_TRY(
        spoil(mistake, host_.layout(), made_[i].slot, made_[has_neighbour ? i + 1 : i].slot));
    chance_.made(mistake, both ? 2 : 1);
    host_.quarantine(made_[i].hash, "spoiled");
    if (both) host_.quarantine(made_[++i].hash, "spoiled");
  }
  return {};
}

// The second half never arrived.
Status Cache::tear(kv::SlotId disk) {
  TOWPATH_TRY(const layout::Extent extent, disk_.layout().memory_region({disk, 0, 0}));
  const std::uint64_t stride = disk_.layout().layout().geometry().block_stride;
  TOWPATH_TRY(const auto zeros, memory::SystemRegion::allocate(stride / 2));
  return sys::write_exactly(file_->file(), zeros->bytes(), extent.address + stride / 2);
}

void Cache::leave_disk(kv::SlotId slot) {
  on_disk_.erase(slot);
  if (torn_.erase(slot) > 0) chance_.gone(Mistake::torn_write);
}

// The file loses its end, from the middle of the last of these blocks on. Where.
Result<std::uint64_t> Cache::cut_by_chance(const std::vector<Missing>& moves) {
  if (!chance_.strikes()) return kNoCut;
  kv::SlotId last = 0;
  for (const Missing& move : moves) last = std::max(last, move.disk.slot());
  TOWPATH_TRY(const layout::Extent extent, disk_.layout().memory_region({last, 0, 0}));
  const std::uint64_t cut_at = extent.address + disk_.layout().layout().geometry().block_stride / 2;
  TOWPATH_TRY(file_->file().resize(cut_at));
  chance_.made(Mistake::short_file);
  return cut_at;
}

// The file is as long as before, and what lay behind the cut is forgotten, as it is lost.
Status Cache::mend(std::uint64_t cut_at) {
  if (cut_at == kNoCut) return {};
  TOWPATH_TRY(file_->file().resize(disk_.layout().layout().geometry().region_bytes));
  const std::uint64_t stride = disk_.layout().layout().geometry().block_stride;
  std::vector<std::pair<kv::SlotId, kv::BlockHash>> lost;
  for (const auto& [slot, hash] : on_disk_) {
    TOWPATH_TRY(const layout::Extent extent, disk_.layout().memory_region({slot, 0, 0}));
    if (extent.address + stride > cut_at) lost.emplace_back(slot, hash);
  }
  for (const auto& [slot, hash] : lost) {
    disk_.quarantine(hash, "cut off");
    leave_disk(slot);
  }
  return {};
}

Account Cache::mistakes() const {
  Account account = chance_.account();
  for (const Mistake mistake : {Mistake::torn_write, Mistake::short_file})
    account.of(mistake).found = faults_.count_of(std::string(name_of(mistake)));
  return account;
}

// Blocks that are torn on disk, and that nobody has asked for since, are read back. But for those
// that the host has, too: a block that is evicted and asked for in one go is made anew before its
// spill is on disk.
Status Cache::settle() {
  chance_.stop();
  const ByPlace<std::uint64_t> before = found_;
  const auto no_room = [] { return error(Code::exhausted, "the host pool is held"); };
  while (!torn_.empty()) {
    const auto [slot, hash] = *torn_.begin();
    if (host_.blocks().find(hash) || !disk_.blocks().find(hash)) {
      leave_disk(slot);
      continue;
    }
    TOWPATH_TRY(gather({hash}, {.make_room = no_room}));
    if (torn_.contains(slot))
      return error(Code::internal, cat("block ", hex(hash), " is torn on disk, and not there"));
  }
  found_ = before;
  return {};
}

}  // namespace towpath::tools::replay
