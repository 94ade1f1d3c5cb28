// ShadowCache: what a cache of so many slots would have hit under a policy, without the bytes.
//
// A hit counts unless the block's parent was used just before it and did not: a prompt can use its
// blocks from the first that it asks for on, up to the first that is missing. What lies before that
// is an engine's own, which asks for the rest alone. So blocks of one prompt must come in order and
// not mixed with those of others.
// Thread: none of its own.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {

class ShadowCache {
 public:
  ShadowCache(SlotId slots, std::unique_ptr<EvictionPolicy> policy);

  /// The block is asked for, and here from now on. Whether it was a hit that counts.
  bool use(const CachedBlock& block);

 private:
  bool touch_or_insert(const CachedBlock& block);

  std::unique_ptr<EvictionPolicy> policy_;
  std::unordered_map<BlockHash, SlotId> slots_by_hash_;
  std::vector<BlockHash> hashes_;
  std::vector<SlotId> free_;
  std::optional<BlockHash> last_;  // that was used
  bool last_counts_ = false;
};

}  // namespace towpath::kv
