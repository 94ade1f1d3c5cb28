#include <towpath/kv/eviction/comparison.h>
#include <towpath/kv/eviction/optimum.h>
#include <towpath/kv/slot_cache.h>

namespace towpath::kv {
namespace {

/// The hits of one request.
std::uint64_t play_one(const Request& request, SlotCache& cache, std::vector<SlotId>& pinned) {
  std::uint64_t hits = 0;
  std::optional<BlockHash> parent;
  bool usable = true;
  for (const BlockHash hash : request.hash_ids) {
    std::optional<SlotId> slot = cache.find(hash);
    usable = usable && slot;
    if (usable) ++hits;
    if (!slot) {
      if (const auto reserved = cache.reserve({hash, parent}); reserved.ok()) {
        slot = reserved->slot;
        cache.publish(*slot, {});
      }
    }
    if (slot) {
      cache.pin(*slot);
      pinned.push_back(*slot);
    }
    parent = hash;
  }
  for (const SlotId slot : pinned) cache.unpin(slot);
  pinned.clear();
  return hits;
}

}  // namespace

Score play(std::span<const Request> requests, PolicyKind policy, SlotId slots) {
  SlotCache cache(slots, policy);
  Score score{.policy = policy};
  std::vector<SlotId> pinned;
  for (const Request& request : requests) score.hits += play_one(request, cache, pinned);
  score.evictions = cache.evictions();
  return score;
}

Comparison compare(std::span<const Request> requests, std::span<const PolicyKind> policies,
                   SlotId slots) {
  std::vector<BlockHash> uses;
  for (const Request& request : requests)
    uses.insert(uses.end(), request.hash_ids.begin(), request.hash_ids.end());
  Comparison out{.slots = slots, .uses = uses.size(), .optimum = optimum_hits(uses, slots)};
  for (const PolicyKind policy : policies) out.scores.push_back(play(requests, policy, slots));
  return out;
}

}  // namespace towpath::kv
