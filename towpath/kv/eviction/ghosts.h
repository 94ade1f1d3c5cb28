// Ghosts: the hashes that left lately, and no more of them than fit. Thread: none of its own.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class Ghosts {
 public:
  explicit Ghosts(SlotId room) : ring_(room) {}

  void add(BlockHash hash) {
    if (ring_.empty()) return;
    Entry& oldest = ring_[added_ % ring_.size()];
    // A hash that came back and left again has a younger entry, which stays.
    if (const auto known = born_.find(oldest.hash);
        known != born_.end() && known->second == oldest.born)
      born_.erase(known);
    oldest = {hash, ++added_};
    born_[hash] = added_;
  }
  /// Whether it was one; it is none afterwards.
  bool take(BlockHash hash) { return born_.erase(hash) != 0; }

 private:
  struct Entry {
    BlockHash hash = 0;
    std::uint64_t born = 0;  // 0: no entry yet
  };
  std::vector<Entry> ring_;
  std::unordered_map<BlockHash, std::uint64_t> born_;
  std::uint64_t added_ = 0;
};

}  // namespace towpath::kv
