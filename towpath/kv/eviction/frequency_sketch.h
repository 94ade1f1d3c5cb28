// FrequencySketch: about how often each hash was seen lately, in a fixed number of bytes (a
// count-min sketch as in TinyLFU, Einziger et al. 2017): four counters per hash, of 4 bits each, of
// which the smallest counts. When ten times as many uses as slots were counted, all are halved: the
// paper's figures. It may report too much, never too little.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class FrequencySketch {
 public:
  static constexpr std::uint8_t kMost = 15;

  explicit FrequencySketch(SlotId slots);

  /// True: all counters were just halved.
  bool count(BlockHash hash);
  std::uint8_t estimate(BlockHash hash) const;

 private:
  static constexpr int kRows = 4;
  std::size_t place(BlockHash hash, int row) const;
  void halve();

  std::vector<std::uint8_t> counters_;  // a byte holds one: simpler, and small beside the blocks
  std::size_t width_;
  std::uint64_t counted_ = 0;
  std::uint64_t period_;
};

}  // namespace towpath::kv
