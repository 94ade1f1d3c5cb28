#include "tools/traces/diagnosis.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/traces/pattern.h"

namespace towpath::traces {
namespace {

using ::testing::StartsWith;

struct Block {
  explicit Block(kv::BlockHash which, std::uint64_t width = 2)
      : shape{4, 2, 8, width}, hash(which) {
    for (std::uint64_t layer = 0; layer < shape.num_layers; ++layer) {
      for (std::uint64_t outer = 0; outer < shape.outer_dim; ++outer) {
        rows.emplace_back(shape.tokens * width);
        fill({.hash = which, .layer = layer, .outer = outer, .bytes_per_token = width},
             rows.back());
      }
    }
  }
  Bytes& at(std::uint64_t layer, std::uint64_t outer) { return rows[layer * 2 + outer]; }
  std::string examine(std::vector<kv::BlockHash> others = {}) {
    return diagnose(
        hash, shape, [&](auto layer, auto outer) { return ConstByteSpan(at(layer, outer)); },
        others);
  }
  BlockShape shape;
  kv::BlockHash hash;
  std::vector<Bytes> rows;
};

TEST(DiagnosisTest, each_mistake_is_reported_by_its_name) {
  for (std::uint64_t width : {2U, 16U}) {
    EXPECT_EQ(Block(5, width).examine(), "");
    Block block(5, width);
    std::swap(block.at(2, 0), block.at(2, 1));
    EXPECT_THAT(block.examine(), StartsWith("swap-kv: K and V are swapped in layer 2"));
    block = Block(5, width);
    std::swap(block.at(1, 0), block.at(3, 0));
    EXPECT_THAT(block.examine(), StartsWith("swap-layer: layer 1 outer 0 holds layer 3"));
    block = Block(5, width);
    std::swap_ranges(block.at(0, 1).begin(), block.at(0, 1).begin() + static_cast<long>(width),
                     block.at(0, 1).begin() + static_cast<long>(3 * width));
    EXPECT_THAT(block.examine(), StartsWith("swap-token: layer 0 outer 1: tokens 0 and 3"));
    block = Block(6, width);
    block.hash = 5;
    EXPECT_THAT(block.examine({9, 6}), StartsWith("swap-block: block 0x5 holds block 0x6"));
    block = Block(5, width);
    block.at(3, 1)[width + 1] ^= std::byte{4};
    EXPECT_THAT(block.examine(),
                StartsWith("flip-bit: one bit is wrong at layer 3 outer 1 token 1 byte 1"));
    block = Block(5, width);
    std::fill(block.at(1, 1).begin() + static_cast<long>(width), block.at(1, 1).end(),
              std::byte{0});
    EXPECT_THAT(block.examine(), StartsWith("torn: only zeros from layer 1 outer 1 token 1"));
    block = Block(5, width);
    block.at(0, 0)[1] ^= std::byte{255};
    EXPECT_THAT(block.examine(), StartsWith("unknown: 1 bytes are wrong"));
  }
}

}  // namespace
}  // namespace towpath::traces
