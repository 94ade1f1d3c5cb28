#include <algorithm>
#include <bit>

#include <towpath/kv/eviction/frequency_sketch.h>

namespace towpath::kv {
namespace {

constexpr std::uint64_t kUsesPerSlot = 10;
constexpr std::size_t kCountersPerSlot = 4;

}  // namespace

FrequencySketch::FrequencySketch(SlotId slots)
    : width_(std::bit_ceil(std::max<std::size_t>(16, slots * kCountersPerSlot))),
      period_(std::max<std::uint64_t>(1, slots) * kUsesPerSlot) {
  counters_.resize(width_ * kRows);
}

std::size_t FrequencySketch::place(BlockHash hash, int row) const {
  std::uint64_t mixed = (hash + static_cast<std::uint64_t>(row + 1)) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 29U)) * 0xbf58476d1ce4e5b9ULL;
  mixed ^= mixed >> 32U;
  return static_cast<std::size_t>(row) * width_ + (mixed & (width_ - 1));
}

bool FrequencySketch::count(BlockHash hash) {
  const std::uint8_t now = estimate(hash);
  for (int row = 0; row < kRows && now < kMost; ++row) {
    std::uint8_t& counter = counters_[place(hash, row)];
    if (counter == now) ++counter;  // only the smallest: the others count other hashes as well
  }
  if (++counted_ < period_) return false;
  halve();
  return true;
}

std::uint8_t FrequencySketch::estimate(BlockHash hash) const {
  std::uint8_t least = kMost;
  for (int row = 0; row < kRows; ++row) least = std::min(least, counters_[place(hash, row)]);
  return least;
}

void FrequencySketch::halve() {
  for (std::uint8_t& counter : counters_) counter /= 2;
  counted_ /= 2;
}

}  // namespace towpath::kv
