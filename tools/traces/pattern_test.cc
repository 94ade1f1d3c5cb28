#include "tools/traces/pattern.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace towpath::traces {
namespace {

Bytes rows_of(const PatternRows& which, std::uint64_t tokens) {
  Bytes rows(tokens * which.bytes_per_token);
  fill(which, rows);
  return rows;
}

TEST(PatternTest, finds_nothing_wrong_with_what_it_wrote_and_every_single_wrong_byte) {
  for (std::uint64_t width : {2U, 4U, 6U, 10U, 64U, 5000U}) {
    const PatternRows which{.hash = 77, .layer = 3, .outer = 1, .bytes_per_token = width};
    Bytes rows = rows_of(which, 5000 / width + 3);
    ASSERT_EQ(first_mismatch(which, rows), std::nullopt) << width;
    for (std::size_t at = 0; at < rows.size(); at += 1 + at / 50) {
      rows[at] ^= std::byte{1};
      ASSERT_EQ(first_mismatch(which, rows), at) << width;
      rows[at] ^= std::byte{1};
    }
  }
}

TEST(PatternTest, no_two_tokens_of_65536_are_alike_even_with_two_bytes_each) {
  for (std::uint64_t hash : {0U, 1U, 182789U}) {
    const Bytes rows = rows_of({.hash = hash, .layer = 5, .outer = 0, .bytes_per_token = 2}, 65536);
    std::set<std::pair<std::byte, std::byte>> seen;
    for (std::size_t at = 0; at < rows.size(); at += 2) seen.insert({rows[at], rows[at + 1]});
    EXPECT_EQ(seen.size(), 65536U);
  }
}

TEST(PatternTest, no_two_layers_or_outers_begin_alike) {
  for (std::uint64_t hash : {0U, 9U, 123456789U}) {
    std::set<std::string> seen;
    for (std::uint64_t layer = 0; layer < 128; ++layer) {
      for (std::uint64_t outer = 0; outer < 2; ++outer) {
        const Bytes row =
            rows_of({.hash = hash, .layer = layer, .outer = outer, .bytes_per_token = 2}, 1);
        seen.insert(std::string(as_text(row)));
      }
    }
    EXPECT_EQ(seen.size(), 256U);
  }
}

TEST(PatternTest, no_two_blocks_of_a_long_trace_are_alike) {
  // Two layers of two tokens hold all three numbers that the hash chooses.
  std::set<std::string> seen;
  for (std::uint64_t hash = 0; hash < 200000; ++hash) {
    std::string block;
    for (std::uint64_t layer = 0; layer < 2; ++layer)
      block.append(as_text(rows_of({.hash = hash, .layer = layer, .bytes_per_token = 2}, 2)));
    ASSERT_TRUE(seen.insert(block).second) << hash;
  }
}

}  // namespace
}  // namespace towpath::traces
