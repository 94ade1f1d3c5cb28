// Seal: what every message of a session ends its head with, so that it cannot be altered, repeated,
// left out or put in another place without notice.
//
//   | head of the message | counter u64 | proof 16 |
//
// The proof is over the head and the counter, under the sender's key of the session (handshake.h).
// A body is not covered, unless its proof stands in the head: prove_body().
//
// The first seal that does not fit ends the session: its reader drops it.
// Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/keys.h>
#include <towpath/net/sip_mac.h>

namespace towpath::net {

inline constexpr std::size_t kSealBytes = 8 + SipMac::kProofBytes;

/// One key proves heads, the other bodies: no body can be taken for a head.
struct SealKeys {
  SealKeys() = default;
  explicit SealKeys(const SymmetricKey& key)
      : heads(key.bytes()), bodies(key.bytes().subspan(SipMac::kKeyBytes)) {}
  SipMac heads;
  SipMac bodies;
};

class Sealer {
 public:
  Sealer() = default;
  explicit Sealer(const SymmetricKey& key) : keys_(key) {}

  /// Writes the seal into the last kSealBytes of `head`. Messages leave in the order of their
  /// seals.
  void seal(ByteSpan head) noexcept;
  SipMac::Proof prove_body(ConstByteSpan body) const noexcept { return keys_.bodies.prove(body); }

 private:
  SealKeys keys_;
  std::uint64_t counter_ = 0;
};

/// How a carrier brings messages.
enum class Delivery : std::uint8_t {
  ordered,    ///< all of them, in order: each counter is the next
  unordered,  ///< one may overtake others, at most kMaxOvertaken
};

inline constexpr std::uint64_t kMaxOvertaken = 4096;

class SealReader {
 public:
  SealReader() = default;
  SealReader(const SymmetricKey& key, Delivery delivery) : keys_(key), delivery_(delivery) {}

  /// Whether this head came from the peer, once and in its turn. Errors: denied; the session is
  /// over. Cost: no allocation.
  Status check(ConstByteSpan head);
  bool proves_body(ConstByteSpan body, const SipMac::Proof& proof) const noexcept {
    return keys_.bodies.prove(body) == proof;
  }

 private:
  bool is_in_turn(std::uint64_t counter) noexcept;
  bool is_first(std::uint64_t counter) noexcept;

  SealKeys keys_;
  Delivery delivery_ = Delivery::ordered;
  std::uint64_t newest_ = 0;
  std::array<std::uint64_t, kMaxOvertaken / 64> seen_{};  ///< bit n: a counter equal to n mod 4,096
};

}  // namespace towpath::net
