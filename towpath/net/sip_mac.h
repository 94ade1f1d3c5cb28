// SipMac: a proof of 128 bits that short bytes come from a holder of a key: SipHash-2-4-128.
//
// For what is proven by the million, as the header of every frame: it needs no context, no memory
// and no call into a library, and takes the same time for all bytes of one size. For what is proven
// once there is hmac_sha256(). Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF".
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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

  Proof prove(ConstByteSpan bytes) const noexcept;

 private:
  std::array<std::uint64_t, 2> key_{};
};

}  // namespace towpath::net
