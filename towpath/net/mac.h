// Mac: a proof of 128 bits that short bytes come from a holder of a key.
//
// For what is proven by the million, as the head of every message: it needs no context, no memory
// and no call into a library, and takes the same time for all bytes of one size. For what is proven
// once there is hmac_sha256().
//
//   aes_cmac   AES-128-CMAC by the processor's instructions: 160 of them for 88 bytes
//   siphash    SipHash-2-4-128, everywhere else: 485
//
// Sources: RFC 4493 (CMAC), FIPS 197 (AES); Aumasson, Bernstein, "SipHash: a fast short-input PRF".
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <towpath/core/bytes.h>

namespace towpath::net {

class Mac {
 public:
  enum class Algorithm : std::uint8_t { siphash, aes_cmac };
  /// Whether this processor has the instructions for it.
  static bool is_available(Algorithm algorithm) noexcept;

  static constexpr std::size_t kKeyBytes = 16;
  static constexpr std::size_t kProofBytes = 16;
  struct Proof {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Proof& a, const Proof& b) noexcept {
      return ((a.low ^ b.low) | (a.high ^ b.high)) == 0;  // no branch between the two
    }
  };

  Mac() = default;
  /// `algorithm` is available. `key` has at least kKeyBytes; the first of them are used.
  Mac(Algorithm algorithm, ConstByteSpan key) noexcept;

  Proof prove(ConstByteSpan bytes) const noexcept {
    return algorithm_ == Algorithm::siphash ? prove_by_siphash(bytes) : prove_by_aes(bytes);
  }

 private:
  struct alignas(16) Block {
    std::array<std::byte, 16> bytes{};
  };
  /// Of AES: what goes into each round, and into the last block that is whole, or padded.
  static constexpr std::size_t kRoundKeys = 11, kOfWhole = 11, kOfPadded = 12;

  void expand_aes_key() noexcept;
  Proof prove_by_siphash(ConstByteSpan bytes) const noexcept;
  Proof prove_by_aes(ConstByteSpan bytes) const noexcept;

  Algorithm algorithm_ = Algorithm::siphash;
  std::array<Block, 13> keys_{};  ///< the key itself is the first, which is all that SipHash takes
};

}  // namespace towpath::net
