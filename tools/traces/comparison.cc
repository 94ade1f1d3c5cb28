#include "tools/traces/comparison.h"

#include <towpath/kv/blocks/block_pool.h>

#include "tools/traces/optimum.h"

namespace towpath::traces {
namespace {

/// The hits of one request. Its blocks are held until all of them are there.
std::uint64_t play_one(const Request& request, kv::BlockPool& pool,
                       std::vector<kv::BlockRef>& held) {
  std::uint64_t hits = 0;
  std::optional<kv::BlockHash> parent;
  bool usable = true;
  for (const kv::BlockHash hash : request.hash_ids) {
    kv::BlockRef block = pool.find(hash);
    usable = usable && block;
    if (usable) ++hits;
    if (!block) {
      if (auto slots = pool.allocate(1); slots.ok())
        block = *pool.register_block(
            kv::CompleteBlock(std::move(slots->front()), {{hash, parent}, {}}));
    }
    if (block) held.push_back(std::move(block));
    parent = hash;
  }
  held.clear();
  return hits;
}

}  // namespace

Score play(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots) {
  const auto pool = *kv::BlockPool::make({.slots = slots, .policy = policy, .exact_order = true});
  Score score{.policy = policy};
  std::vector<kv::BlockRef> held;
  for (const Request& request : requests) score.hits += play_one(request, *pool, held);
  score.evictions = pool->figures().evictions;
  return score;
}

Comparison compare(std::span<const Request> requests, std::span<const kv::PolicyKind> policies,
                   kv::SlotId slots) {
  std::vector<kv::BlockHash> uses;
  for (const Request& request : requests)
    uses.insert(uses.end(), request.hash_ids.begin(), request.hash_ids.end());
  Comparison out{.slots = slots, .uses = uses.size(), .optimum = optimum_hits(uses, slots)};
  for (const kv::PolicyKind policy : policies) out.scores.push_back(play(requests, policy, slots));
  return out;
}

}  // namespace towpath::traces
