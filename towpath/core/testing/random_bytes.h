// Bytes that look random, the same for the same seed: what tests fill memory with, and compare.
//
// In words of eight bytes: tests are compiled without optimisation, and a step for each byte was
// half of what the longest of them took. Thread: any.
#pragma once

#include <cstdint>
#include <cstring>

#include <towpath/core/bytes.h>

namespace towpath {

inline void fill_with_random_bytes(ByteSpan into, std::uint64_t seed) noexcept {
  std::uint64_t state = seed * 2 + 1;
  std::byte* at = into.data();
  for (std::size_t left = into.size(); left > 0;) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const std::uint64_t mixed = state ^ (state >> 29U);
    const std::size_t some = left < sizeof mixed ? left : sizeof mixed;
    std::memcpy(at, &mixed, some);
    at += some;
    left -= some;
  }
}

inline Bytes random_bytes(std::uint64_t seed, std::size_t size) {
  Bytes bytes(size);
  fill_with_random_bytes(bytes, seed);
  return bytes;
}

inline bool are_same_bytes(ConstByteSpan a, ConstByteSpan b) noexcept {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace towpath
