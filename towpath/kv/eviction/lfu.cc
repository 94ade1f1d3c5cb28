#include <towpath/kv/eviction/lfu.h>

namespace towpath::kv {

void Lfu::use(Entry& entry) {
  ++entry.uses;
  entry.rank = age_ + entry.uses;
  entry.last_use = ++clock_;
  order_.insert(entry);
}

void Lfu::insert(SlotId slot, const CachedBlock&) {
  entries_[slot] = {.slot = slot};
  use(entries_[slot]);
}

void Lfu::touch(SlotId slot) {
  order_.erase(entries_[slot]);
  use(entries_[slot]);
}

void Lfu::remove(SlotId slot) { order_.erase(entries_[slot]); }

std::optional<SlotId> Lfu::victim(const MayGo& may_go) {
  for (const Entry& entry : order_) {
    if (!may_go(entry.slot)) continue;
    age_ = entry.rank;
    return entry.slot;
  }
  return std::nullopt;
}

}  // namespace towpath::kv
