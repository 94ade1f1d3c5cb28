// Xxh3: XXH3_64bits of libxxhash, with a seed, of bytes that may be copied in the same pass. Each
// vector is loaded once, stored, and summed from its register: in cost that is the copy, where
// bytes come from memory. libxxhash has no such function, and what it keeps of a stream is its own.
//
// Not for other processors: is_possible() says so, and libxxhash has their instructions.
// Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>

#include <towpath/core/bytes.h>

namespace towpath::kv {

class Xxh3 {
 public:
  enum class Instructions : std::uint8_t { avx2, avx512 };
  /// The processor has one of them.
  static bool is_possible() noexcept;
  /// Where it is possible.
  static Instructions best() noexcept;

  explicit Xxh3(std::uint64_t seed, Instructions instructions = best());

  void add(ConstByteSpan bytes) { take(nullptr, bytes); }
  /// `to` is as long as `from` and lies elsewhere; what is added is what was written there.
  void copy(ByteSpan to, ConstByteSpan from) { take(to.data(), from); }
  /// Of all since the last finish().
  std::uint64_t finish();

  static constexpr std::size_t kStripe = 64;
  static constexpr std::size_t kMostHeld = 256;
  static constexpr std::size_t kSecretWords = 24;

  /// Eight sums, and how many stripes of the current block of 16 are in them.
  struct Sums {
    alignas(64) std::array<std::uint64_t, 8> lanes;
    std::size_t stripe = 0;
  };

 private:
  void begin();
  void take(std::byte* to, ConstByteSpan from);
  void hold(std::byte* to, ConstByteSpan from);
  void sum(Sums& sums, std::byte* to, const std::byte* from, std::size_t stripes) const;

  const std::uint64_t seed_;
  const Instructions instructions_;
  std::array<std::uint64_t, kSecretWords> secret_;
  Sums sums_;
  std::uint64_t total_ = 0;
  // The last stripe that was summed, and behind it what is not yet: the end is summed otherwise.
  std::array<std::byte, kStripe + kMostHeld> kept_;
  std::size_t held_ = 0;
};

}  // namespace towpath::kv
