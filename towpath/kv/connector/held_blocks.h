// HeldBlocks: which blocks every worker of an engine holds. A block counts when all of them do:
// each has its share of the heads or layers, and a part of a block is of no use. So it is with
// those that last: that are where the end of a worker does not reach. Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <towpath/kv/block_id.h>
#include <towpath/kv/blocks/block_directory.h>

namespace towpath::kv {

class HeldBlocks {
 public:
  /// 1 to 64 workers.
  explicit HeldBlocks(std::uint32_t workers) : all_(~std::uint64_t{0} >> (64 - workers)) {}

  /// `tier`: the fastest that the worker has it in.
  void add(BlockHash hash, std::uint32_t worker, TierIndex tier = 0, bool is_lasting = false);
  void remove(BlockHash hash, std::uint32_t worker);
  /// What this worker said is true no more, unless it says so again until forget_doubted().
  void doubt(std::uint32_t worker);
  void forget_doubted(std::uint32_t worker);

  bool has(BlockHash hash) const { return tier_of(hash).has_value(); }
  bool lasts(BlockHash hash) const {
    const auto known = holders_.find(hash);
    return known != holders_.end() && known->second.lasting == all_;
  }
  /// Of a block that all hold: where the worker has it that spoke of it last. They fill and empty
  /// their tiers alike.
  std::optional<TierIndex> tier_of(BlockHash hash) const {
    const auto known = holders_.find(hash);
    if (known == holders_.end() || known->second.workers != all_) return std::nullopt;
    return known->second.tier;
  }
  /// Held by all, and not lasting.
  std::size_t not_lasting() const { return held_ - lasting_; }
  struct Event {
    BlockEvent::Kind kind = BlockEvent::Kind::stored;
    BlockHash hash = 0;
    bool is_lasting = false;  ///< it began to last, or ceased to; else, to be held
  };
  /// Blocks that came to be held by all, or ceased to, since the last call, in order: one that
  /// lasts is held first, and one that is held no more has ceased to last before. Nobody needs to
  /// call it: from 131,072 events on, and four for each block held, the first ones are dropped.
  std::vector<Event> take_events() {
    most_held_ = held_;
    return std::exchange(events_, {});
  }

 private:
  void report(const Event& event);

  struct Holders {
    std::uint64_t workers = 0;  // bit i: worker i
    std::uint64_t lasting = 0;  // of these, where it lasts
    TierIndex tier = 0;
  };

  const std::uint64_t all_;
  std::unordered_map<BlockHash, Holders> holders_;
  std::map<std::uint32_t, std::unordered_set<BlockHash>> doubted_;  // of workers that repeat theirs
  std::vector<Event> events_;
  std::size_t held_ = 0, lasting_ = 0;  // by all
  std::size_t most_held_ = 0;           // since events were taken
};

}  // namespace towpath::kv
