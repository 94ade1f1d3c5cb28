// LFU with ageing: who was used least goes, of equals the one used longest ago. A block's rank is
// its uses plus the rank of the last victim when it was last used (LFU-DA, Arlitt et al. 1999), so
// old fame fades as the cache turns over. No parameters. Cost: logarithmic.
// Thread: none of its own.
#pragma once

#include <set>
#include <vector>

#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {

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

}  // namespace towpath::kv
