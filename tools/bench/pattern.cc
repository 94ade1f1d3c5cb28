#include "tools/bench/pattern.h"

#include <algorithm>
#include <cstring>

namespace towpath::tools::bench {
namespace {

constexpr std::byte kPoison{0xee};

// Eight bytes of the pattern; `index` counts them. After Steele's splitmix64: each word is a
// bijection of seed + index, so neighbours and seeds never meet by chance in a row.
std::uint64_t word_of(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t word = seed + (index + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111eb;
  return word ^ (word >> 31U);
}

std::byte byte_of(std::uint64_t seed, std::uint64_t offset) noexcept {
  return static_cast<std::byte>(word_of(seed, offset / 8) >> (8 * (offset % 8)));
}

std::optional<std::uint64_t> wrong_in_block(ConstByteSpan area, std::uint64_t begin,
                                            std::uint64_t end, std::uint64_t seed) {
  std::uint64_t at = begin;
  while (at < end) {
    if (at % 8 == 0 && end - at >= 8) {
      const std::uint64_t want = word_of(seed, at / 8);
      if (std::memcmp(area.data() + at, &want, sizeof want) == 0) {
        at += 8;
        continue;
      }
    }
    if (area[at] != byte_of(seed, at)) return at;
    ++at;
  }
  return std::nullopt;
}

}  // namespace

void fill(ByteSpan area, std::uint64_t seed) {
  std::uint64_t at = 0;
  for (; area.size() - at >= 8; at += 8) {
    const std::uint64_t word = word_of(seed, at / 8);
    std::memcpy(area.data() + at, &word, sizeof word);
  }
  for (; at < area.size(); ++at) area[at] = byte_of(seed, at);
}

void poison(ByteSpan area) { std::ranges::fill(area, kPoison); }

std::optional<std::uint64_t> first_wrong(ConstByteSpan area, const Blocks& blocks) {
  if (blocks.count == 0) return std::nullopt;
  // May come from another process: what does not fit is wrong, and never read.
  if (blocks.stride == 0 || blocks.block_bytes > blocks.stride ||
      blocks.count > area.size() / blocks.stride)
    return area.size();
  for (std::uint64_t i = 0; i < blocks.count; ++i) {
    const std::uint64_t begin = i * blocks.stride;
    const std::uint64_t end = begin + blocks.block_bytes;
    const std::uint64_t next = begin + blocks.stride;
    if (const auto wrong = wrong_in_block(area, begin, end, blocks.seed)) return wrong;
    const auto gap = area.subspan(end, next - end);
    const auto touched = std::ranges::find_if(gap, [](std::byte b) { return b != kPoison; });
    if (touched != gap.end()) return end + static_cast<std::uint64_t>(touched - gap.begin());
  }
  return std::nullopt;
}

}  // namespace towpath::tools::bench
