// LoadOrCompute: how many of the blocks of a prompt that are kept are loaded, the rest being
// computed anew. It decides by what both took lately.
//
//   note_step()  what an engine's steps took, by tokens     -->  a block computed:  so long
//   note_cost()  what blocks took from each tier, measured  -->  a block loaded:    so long
//
// A prompt's first k blocks are loaded, one after the other, and what follows is computed: the k
// for which that ends first. While nothing is known of a tier, or of computing, all is loaded. Now
// and then it looks: where it has chosen to load less for long, it loads a few blocks to see
// whether that is still right; and where they came faster than before, it looks again at once.
// Where all was loaded, and nothing known of computing, it loads a few less. Thread: none of its
// own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>

namespace towpath::kv {

/// Blocks, by tier.
using TierCounts = std::array<std::uint64_t, kMaxTiers>;

class LoadOrCompute {
 public:
  /// Steps of less than 64 tokens say nothing: they are made of requests that generate.
  void note_step(std::uint64_t tokens, Duration took);
  /// Until the worker says otherwise. Of several workers the slowest counts.
  void note_cost(std::uint32_t worker, const TierCost& cost);

  struct Question {
    std::span<const TierIndex> tiers;  ///< of each block that may be loaded, in order
    std::uint64_t tokens_per_block = 0;
    TierCounts waiting{};  ///< that others load before
  };
  struct Answer {
    std::uint64_t blocks = 0;  ///< to load
    bool is_to_see = false;    ///< it would be another number, but for want of news
  };
  /// The same answer to the same question until something is noted or decided.
  Answer ask(const Question& question) const;
  /// The answer was followed.
  void note_decision(const Answer& answer, std::uint64_t asked_blocks);

  /// Of a token; 0: not measured yet.
  Duration computing_per_token() const noexcept;

 private:
  std::array<Duration, kMaxTiers> costs_by_tier() const;

  std::uint64_t tokens_ = 0;                                       // of steps, lately
  Duration steps_{0};                                              // that these took
  std::map<std::pair<TierIndex, std::uint32_t>, Duration> costs_;  // by worker
  bool has_steps_ = false;
  std::uint64_t blind_ = 0;    // decisions without knowing what computing costs
  std::uint64_t refused_ = 0;  // decisions to load less, since the last that was to see
};

}  // namespace towpath::kv
