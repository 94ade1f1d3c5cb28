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
#include <towpath/net/mac.h>

namespace towpath::net {

inline constexpr std::size_t kSealBytes = 8 + Mac::kProofBytes;

/// Of one direction of a session.
struct SealKey {
  SymmetricKey key;
  Mac::Algorithm algorithm = Mac::Algorithm::siphash;
};

/// One half of a key proves heads, the other bodies: no body can be taken for a head.
struct SealMacs {
  SealMacs() = default;
  explicit SealMacs(const SealKey& of)
      : heads(of.algorithm, of.key.bytes()),
        bodies(of.algorithm, of.key.bytes().subspan(Mac::kKeyBytes)) {}
  Mac heads;
  Mac bodies;
};

class Sealer {
 public:
  Sealer() = default;
  explicit Sealer(const SealKey& key) : macs_(key) {}

  /// Writes the seal into the last kSealBytes of `head`. Messages leave in the order of their
  /// seals.
  void seal(ByteSpan head) noexcept;
  Mac::Proof prove_body(ConstByteSpan body) const noexcept { return macs_.bodies.prove(body); }

 private:
  SealMacs macs_;
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
  SealReader(const SealKey& key, Delivery delivery) : macs_(key), delivery_(delivery) {}

  /// Whether this head came from the peer, once and in its turn. Errors: denied; the session is
  /// over. Cost: no allocation.
  Status check(ConstByteSpan head);
  bool proves_body(ConstByteSpan body, const Mac::Proof& proof) const noexcept {
    return macs_.bodies.prove(body) == proof;
  }

 private:
  bool is_in_turn(std::uint64_t counter) noexcept;
  bool is_first(std::uint64_t counter) noexcept;

  SealMacs macs_;
  Delivery delivery_ = Delivery::ordered;
  std::uint64_t newest_ = 0;
  std::array<std::uint64_t, kMaxOvertaken / 64> seen_{};  ///< bit n: a counter equal to n mod 4,096
};

}  // namespace towpath::net
