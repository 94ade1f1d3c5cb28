// LFU with ageing: who was used least goes, of equals the one used longest ago. A block's rank is
// its uses plus the rank of the last victim when it was last used (LFU-DA, Arlitt et al. 1999), so
// old fame fades as the cache turns over. No parameters. Cost: logarithmic.
// Thread: none of its own.
#include <set>
#include <vector>

#include <towpath/kv/eviction/policies.h>

namespace towpath::kv {
namespace {

class Lfu final : public EvictionPolicy {
 public:
  explicit Lfu(SlotId slots) : entries_(slots) {}

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  struct Entry {
    std::uint64_t uses = 0;
    std::uint64_t rank = 0;
    std::uint64_t last_use = 0;
    SlotId slot = 0;
  };
  struct Sooner {
    bool operator()(const Entry& left, const Entry& right) const {
      return left.rank != right.rank ? left.rank < right.rank : left.last_use < right.last_use;
    }
  };
  void use(Entry& entry);

  std::vector<Entry> entries_;
  std::set<Entry, Sooner> order_;  // who goes first
  std::uint64_t age_ = 0;          // the rank of the last victim
  std::uint64_t clock_ = 0;
};

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

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfu(SlotId slots) { return std::make_unique<Lfu>(slots); }

}  // namespace towpath::kv
