// ReuseOdds: what a block's age says about its next use, learned from the uses themselves.
//
// Time is counted in epochs, a quarter of the cache's size in uses each. For blocks used once,
// twice, three times and more often (classes), and for each age, it counts how many were of that
// age and how many were used then, whether they were still in the cache or not: a hazard rate, as
// in the statistics of survival. From these comes worth(): the most uses per epoch of room that
// keeping the block can bring, over all times one may keep it (a Gittins index). Prompts that come
// back after a pause have low worth while they are young, which no order by recency can say.
//
// Parameters, all relative to the cache: a quarter of it for an epoch, sixteen times its size to
// look back, as long for old counts to weigh half. Before anything is known, worth falls with age
// (LRU). Memory: the hashes used over as long as it looks back, some 860 bytes per slot.
// Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class ReuseOdds {
 public:
  static constexpr std::uint64_t kAges = 64;  ///< in epochs; the last is "older"
  static constexpr std::uint8_t kClasses = 4;

  explicit ReuseOdds(SlotId slots);

  /// A block's last use: when, and how often it had been used by then.
  struct Use {
    std::uint64_t epoch : 62 = 0;
    std::uint64_t use_class : 2 = 0;
  };
  static_assert(kClasses <= 4 && sizeof(Use) == 8);  // it is there for each hash
  /// The block is used now. Cost: constant; at the end of an epoch, one pass over the tables.
  Use count(BlockHash hash);

  std::uint64_t epoch() const noexcept { return epoch_; }
  /// Of a block of this class, last used so many epochs ago.
  double worth_at(std::uint8_t use_class, std::uint64_t age) const {
    return worth_[use_class][age];
  }

 private:
  using Table = std::array<std::array<double, kAges>, kClasses>;
  std::uint64_t age_of(std::uint64_t epoch) const {
    return epoch_ - epoch < kAges ? epoch_ - epoch : kAges - 1;
  }
  void end_epoch();
  void forget_the_oldest();
  void judge(std::uint8_t use_class);

  const std::uint64_t epoch_length_;
  std::uint64_t epoch_ = 0;
  std::uint64_t used_ = 0;                          // in this epoch
  std::unordered_map<BlockHash, Use> known_;        // of the last kAges epochs
  std::array<std::vector<BlockHash>, kAges> seen_;  // by epoch, in a ring: what may be forgotten
  // By class and epoch modulo kAges: blocks last used then.
  std::array<std::array<std::uint64_t, kAges>, kClasses> living_{};
  Table reached_{};  // how many came to that age
  Table reused_{};   // how many of them were used at it
  Table worth_{};
};

}  // namespace towpath::kv
