// HandOver: blocks that a server is to take. Each is held until the server has reported that it has
// it, so that no other block takes its slot before that.
//
//   hold(block) --> [ held ] --progress()--> the server has it; or it has waited for too long
//
// It moves nothing: the server takes what is reported to it (BlockCollector). Thread: one at a
// time.
#pragma once

#include <cstdint>
#include <deque>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/blocks/block_pool.h>

namespace towpath::kv {

class HandOver {
 public:
  struct Options {
    const Clock* clock = nullptr;
    const BlockDirectory* block_directory = nullptr;  ///< with the clock, outlives it
    TierIndex server = 0;                             ///< the tier of what the server has
    std::size_t most_blocks = 0;                 ///< held at once; beyond, the oldest is let go
    Duration timeout = std::chrono::seconds(2);  ///< for each block
  };
  struct Figures {
    std::uint64_t handed_over = 0;
    std::uint64_t given_up = 0;  ///< the server did not take them in time; they may be evicted
  };

  explicit HandOver(const Options& options) : options_(options) {}

  void hold(BlockRef block);
  /// True: one or more were let go.
  bool progress();
  /// The server is gone: nothing of this can be had.
  void give_up();
  std::size_t held() const { return held_.size(); }
  /// How many of those that were given up since the last call the server does not have now.
  std::uint64_t take_missing();
  const Figures& figures() const { return figures_; }

 private:
  struct Held {
    BlockRef block;
    Instant until;
  };
  bool has_arrived(BlockHash hash) const;
  void give_up_first();

  const Options options_;
  std::deque<Held> held_;           // the oldest first
  std::deque<BlockHash> given_up_;  // the newest of them, as many as are held at most
  std::uint64_t missing_ = 0;       // of those before them
  Figures figures_;
};

}  // namespace towpath::kv
