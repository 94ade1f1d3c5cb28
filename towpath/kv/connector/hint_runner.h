// HintRunner: does what hints ask of a cache, within a share of its memory, and answers each once.
//
//   take(order) --> [ waits: `after` ] --> [ under way ] --progress()--> answer
//                                              |
//                                [ held until `keep` is over ]
//
// Blocks that no tier has yet, since they are being saved, are waited for a little, and those for
// which a tier, a peer or the pool has no room now are asked for again as long. What is held is a
// share of the slots at most, so that engines always find others. A block stays while any session
// holds it. Thread: loop, the keeper's.
#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/kv/tiers/tiered_cache.h>

namespace towpath::kv {

class HintRunner {
 public:
  struct Options {
    const Clock* clock = nullptr;                     ///< with the directory, outlives it
    const BlockDirectory* block_directory = nullptr;  ///< the cache's
    /// Bit i: in tier i a block is as good as demoted; none: there is memory alone.
    std::uint16_t below = 0;
    bool has_peers = false;
    std::uint64_t most_held = 0;                      ///< blocks, of all hints together
    std::size_t most_hints = 1024;                    ///< that have not ended
    Duration grace = std::chrono::milliseconds(500);  ///< for blocks that are being saved
    Duration longest_demotion = std::chrono::seconds(30);
  };
  /// The cache outlives it.
  HintRunner(const Options& options, TieredCache& cache) : options_(options), cache_(cache) {}

  void take(HintOrder order);
  /// True: something moved, or there is more to do at once.
  bool progress();
  std::vector<HintAnswer> take_answers() { return std::exchange(answers_, {}); }
  /// Nothing is under way; what waits for its time is not.
  bool is_idle() const { return std::ranges::none_of(running_, &Running::has_begun); }
  std::size_t held() const { return held_.size(); }

 private:
  struct Running {
    HintOrder order;
    Instant next;  // look at it
    std::optional<Instant> begun{};
    std::deque<BlockHash> left{};  // in order; nothing was done for them yet
    std::optional<Promotion> coming{};
    std::vector<BlockHash> asked{};           // what is coming, in that order
    Instant ask_at{};                         // not before
    std::unordered_set<BlockHash> refused{};  // for want of room, when last asked for
    Status refusal{};                         // of the last one
    std::unordered_set<BlockHash> offered{};  // to the tiers below
    std::uint64_t done = 0;
    bool is_clipped = false;

    bool has_begun() const { return begun.has_value(); }
  };
  struct Hold {
    std::uint64_t session;
    Instant until;
  };
  struct Held {
    BlockRef block;
    std::vector<Hold> holds;  // of each session one; never none
  };

  std::string why_not(const HintOrder& order) const;
  void reject(const HintOrder& order, std::string why);
  bool let_go(Instant now);
  void release(Running& hint);
  bool advance(Running& hint, Instant now);
  bool may_still_be_done(const Running& hint, Instant now) const;
  void take_arrived(Running& hint, Instant now);
  void take_refused(Running& hint, BlockHash hash, Status refusal, Instant now);
  bool do_for(Running& hint, BlockHash hash, Instant now);
  void hold(Running& hint, BlockRef block, Instant now);
  static void add(Held& held, Hold hold);
  bool give_back(BlockHash hash, std::uint64_t session);
  bool demote(Running& hint, BlockHash hash);
  void bring(Running& hint);
  void answer(const Running& hint);

  const Options options_;
  TieredCache& cache_;
  std::list<Running> running_;
  std::unordered_map<BlockHash, Held> held_;
  Instant next_end_ = Instant::never();  // of what is held
  std::vector<HintAnswer> answers_;
};

}  // namespace towpath::kv
