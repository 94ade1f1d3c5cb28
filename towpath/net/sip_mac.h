// SipMac: a proof of 128 bits that short bytes come from a holder of a key: SipHash-2-4-128.
//
// For what is proven by the million, as the header of every frame: it needs no context, no memory
// and no call into a library, and takes the same time for all bytes of one size. For what is proven
// once there is hmac_sha256(). Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF".
// Thread: immutable.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <towpath/core/bytes.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

class SipMac {
 public:
  static constexpr std::size_t kKeyBytes = 16;
  static constexpr std::size_t kProofBytes = 16;
  struct Proof {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Proof& a, const Proof& b) noexcept {
      return ((a.low ^ b.low) | (a.high ^ b.high)) == 0;  // no branch between the two
    }
  };

  SipMac() = default;
  /// `key` has at least kKeyBytes; the first of them are used.
  explicit SipMac(ConstByteSpan key) noexcept
      : key_{wire::load<std::uint64_t>(key), wire::load<std::uint64_t>(key.subspan(8))} {}

  Proof prove(ConstByteSpan bytes) const noexcept {
    State state{key_[0] ^ 0x736f6d6570736575, key_[1] ^ 0x646f72616e646f6d ^ 0xee,
                key_[0] ^ 0x6c7967656e657261, key_[1] ^ 0x7465646279746573};
    std::size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8)
      state.take(wire::load<std::uint64_t>(bytes.subspan(at)));
    std::uint64_t last = static_cast<std::uint64_t>(bytes.size()) << 56U;
    for (unsigned shift = 0; at < bytes.size(); ++at, shift += 8)
      last |= std::to_integer<std::uint64_t>(bytes[at]) << shift;
    state.take(last);
    state.c ^= 0xee;
    const std::uint64_t low = state.finish();
    state.b ^= 0xdd;
    return {low, state.finish()};
  }

 private:
  struct State {
    std::uint64_t a, b, c, d;

    void round() noexcept {
      a += b, c += d;
      b = std::rotl(b, 13) ^ a, d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b, a += d;
      b = std::rotl(b, 17) ^ c, d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
    void take(std::uint64_t word) noexcept {
      d ^= word;
      round(), round();
      a ^= word;
    }
    std::uint64_t finish() noexcept {
      for (int i = 0; i < 4; ++i) round();
      return a ^ b ^ c ^ d;
    }
  };

  std::array<std::uint64_t, 2> key_{};
};

}  // namespace towpath::net
