#include "tools/traces/comparison.h"

#include <unordered_set>

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

/// Of each request, whether nobody goes on behind it. Its last block may be a part of one, whose
/// name goes with what is generated.
std::vector<bool> ends_of_sessions(std::span<const Request> requests) {
  std::unordered_set<kv::BlockHash> wanted_later;
  std::vector<bool> ends(requests.size());
  for (std::size_t i = requests.size(); i-- > 0;) {
    const auto& blocks = requests[i].hash_ids;
    const std::size_t last = blocks.size() > 1 ? blocks.size() - 2 : 0;
    ends[i] = blocks.empty() || !wanted_later.contains(blocks[last]);
    wanted_later.insert(blocks.begin(), blocks.end());
  }
  return ends;
}

/// `ends`: hints; none: there are none.
Score play_all(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots,
               const std::vector<bool>& ends) {
  const auto pool = *kv::BlockPool::make({.slots = slots, .policy = policy, .exact_order = true});
  Score score{.policy = policy};
  std::vector<kv::BlockRef> held;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    score.hits += play_one(requests[i], *pool, held);
    if (!ends.empty() && ends[i])
      for (const kv::BlockHash hash : requests[i].hash_ids) (void)pool->spend(hash);
  }
  score.evictions = pool->figures().evictions;
  return score;
}

}  // namespace

Score play(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots) {
  return play_all(requests, policy, slots, {});
}

Score play_with_hints(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots) {
  return play_all(requests, policy, slots, ends_of_sessions(requests));
}

Comparison compare(std::span<const Request> requests, std::span<const kv::PolicyKind> policies,
                   kv::SlotId slots) {
  std::vector<kv::BlockHash> uses;
  for (const Request& request : requests)
    uses.insert(uses.end(), request.hash_ids.begin(), request.hash_ids.end());
  Comparison out{.slots = slots, .uses = uses.size(), .optimum = optimum_hits(uses, slots)};
  for (const kv::PolicyKind policy : policies) out.scores.push_back(play(requests, policy, slots));
  for (const kv::PolicyKind policy : kHinted)
    out.hinted.push_back(play_with_hints(requests, policy, slots));
  return out;
}

}  // namespace towpath::traces
