#include "tools/traces/pattern.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace towpath::traces {
namespace {

constexpr std::uint64_t kWordBytes = 8;
constexpr std::uint64_t kTokenStep = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kWordStep = 0xd1b54a32d192ed03ULL;

constexpr std::uint64_t mix(std::uint64_t value) {  // the finaliser of SplitMix64
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31U);
}

struct Key {
  std::uint16_t head = 0;  // of token 0
  std::uint16_t head_step = 1;
  std::uint64_t words = 0;
};

Key key_of(const PatternRows& which) {
  // A bijection of 46 bits, then cut into the three parameters: hashes below 2^46 never share all.
  constexpr std::uint64_t kMask = (std::uint64_t{1} << 46U) - 1;
  const std::uint64_t above = which.hash >> 46U;
  const std::uint64_t folded = above == 0 ? which.hash : which.hash ^ mix(above);
  const std::uint64_t bits = folded * 0x9e3779b97f4a7c15ULL & kMask;
  const auto place = static_cast<std::uint16_t>(which.layer * 2 + which.outer);
  const auto place_step = static_cast<std::uint16_t>((bits >> 30U & 0xfffeU) | 1U);
  Key key;
  key.head_step = static_cast<std::uint16_t>((bits << 1U & 0xfffeU) | 1U);
  key.head = static_cast<std::uint16_t>((bits >> 15U) + std::uint32_t{place} * place_step);
  key.words = mix(which.hash ^ mix(place + std::uint64_t{1}));
  return key;
}

void store_head(std::byte* row, const Key& key, std::uint64_t token) {
  const auto head = static_cast<std::uint16_t>(key.head + token * key.head_step);
  row[0] = static_cast<std::byte>(head & 0xffU);
  row[1] = static_cast<std::byte>(head >> 8U);
}

// In a sanitized replay a third of the time would go to looks at each of these stores, which the
// callers' spans bound.
#ifdef __clang__
#define TOWPATH_BOUNDED_BY_CALLER __attribute__((no_sanitize("address", "undefined", "coverage")))
#else
#define TOWPATH_BOUNDED_BY_CALLER
#endif

TOWPATH_BOUNDED_BY_CALLER
constexpr std::uint64_t word_of(std::uint64_t seed) {
  return (seed ^ (seed >> 29U)) * 0xbf58476d1ce4e5b9ULL;
}

TOWPATH_BOUNDED_BY_CALLER
void write_words(std::byte* words, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < count; ++i, seed += kWordStep) {
    const std::uint64_t word = word_of(seed);
    std::memcpy(words + i * kWordBytes, &word, kWordBytes);
  }
}

// Plain enough for the compiler to vectorise.
TOWPATH_BOUNDED_BY_CALLER
void write_heads(std::byte* heads, std::uint64_t count, std::uint16_t head, std::uint16_t step) {
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(heads + i * 2, &head, 2);
    head = static_cast<std::uint16_t>(head + step);
  }
}

// Bytes [first_byte, first_byte + part.size()) of a token's row; first_byte is a multiple of 8.
void write_row(const Key& key, std::uint64_t token, std::uint64_t first_byte, ByteSpan part) {
  const std::uint64_t seed = key.words + token * kTokenStep + first_byte / kWordBytes * kWordStep;
  const std::uint64_t words = part.size() / kWordBytes;
  write_words(part.data(), words, seed);
  if (const ByteSpan rest = part.subspan(words * kWordBytes); !rest.empty()) {
    const std::uint64_t word = word_of(seed + words * kWordStep);
    std::memcpy(rest.data(), &word, rest.size());
  }
  if (first_byte == 0) store_head(part.data(), key, token);
}

// Whole rows from `token` on.
void write_rows(const Key& key, std::uint64_t bytes_per_token, std::uint64_t token, ByteSpan rows) {
  if (bytes_per_token == 2) {
    const auto head = static_cast<std::uint16_t>(key.head + token * key.head_step);
    return write_heads(rows.data(), rows.size() / 2, head, key.head_step);
  }
  for (std::uint64_t at = 0; at < rows.size(); at += bytes_per_token, ++token)
    write_row(key, token, 0, rows.subspan(at, bytes_per_token));
}

std::optional<std::uint64_t> first_difference(ConstByteSpan expected, ConstByteSpan found) {
  if (std::memcmp(expected.data(), found.data(), found.size()) == 0) return std::nullopt;
  return static_cast<std::uint64_t>(std::ranges::mismatch(expected, found).in1 - expected.begin());
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "the pattern is written as words");

void fill(const PatternRows& which, ByteSpan rows) {
  write_rows(key_of(which), which.bytes_per_token, 0, rows);
}

std::optional<std::uint64_t> first_mismatch(const PatternRows& which, ConstByteSpan rows) {
  const Key key = key_of(which);
  const std::uint64_t width = which.bytes_per_token;
  std::array<std::byte, 4096> expected;
  const std::uint64_t step = width <= expected.size() ? expected.size() / width * width
                                                      : static_cast<std::uint64_t>(expected.size());
  for (std::uint64_t at = 0; at < rows.size();) {
    const bool by_rows = width <= expected.size();
    const std::uint64_t left = by_rows ? rows.size() - at : width - at % width;
    const ByteSpan part(expected.data(), std::min(step, left));
    if (by_rows) {
      write_rows(key, width, at / width, part);
    } else {
      write_row(key, at / width, at % width, part);
    }
    if (const auto wrong = first_difference(part, rows.subspan(at, part.size())))
      return at + *wrong;
    at += part.size();
  }
  return std::nullopt;
}

}  // namespace towpath::traces
