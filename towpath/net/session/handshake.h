// Handshake: both sides prove that they hold the secret in the listener's metadata, before anything
// else is exchanged. Bytes in, bytes out: it knows no socket and no clock.
//
//   dialler                                        listener
//     hello    who I am, whom I mean, nonce, proof  --->   silent, unless the proof holds
//     <---  answer   who I am, nonce, proof
//     confirmation   proof                          --->   now the session is up
//
// Each proof is an HMAC-SHA-256 under a key of the secret, over all that was exchanged up to it:
// both nonces, identities, incarnations and instances, the backend, the version, and the step,
// which is also the role. So what was recorded proves nothing in another handshake, what is sent
// back proves nothing to its sender, and what is brought to another listener proves nothing there.
// The secret itself never travels. Both sides derive the keys of the session (seal.h) from the
// secret and the whole exchange.
//
// A version is in the same place in every version, and another one is refused by name.
// docs/formats/session.md draws the bytes. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/core/secret.h>
#include <towpath/net/session/seal.h>

namespace towpath::net {

inline constexpr std::uint8_t kSessionVersion = 1;
/// What a side may give the other under the proofs: SessionParty::data.
inline constexpr std::size_t kMaxPartyData = 17 * 1024;

/// What a side is, which its proof binds.
struct SessionParty {
  AgentIdentity agent;
  std::uint64_t instance = 0;  ///< random and never 0: this backend, and none before or after it
  Bytes data;                  ///< opaque here, at most kMaxPartyData
  bool has_aes = Mac::is_available(Mac::Algorithm::aes_cmac);
};

/// What both sides must have in common.
struct SessionTerms {
  Secret secret;        ///< of the listener, at least kMinSecretBytes
  std::string backend;  ///< at most 32 bytes
};

/// Of a session that is up. Its seals are made by AES where both sides have it.
struct SessionKeys {
  SealKey sending;
  SealKey receiving;
};

class DialHandshake {
 public:
  struct Expected {
    AgentIdentity agent;
    std::uint64_t instance = 0;
  };
  /// Errors: invalid_argument (the secret has less than 128 bits).
  static Result<DialHandshake> begin(SessionTerms terms, const SessionParty& self,
                                     Expected listener);

  ConstByteSpan hello() const noexcept { return hello_; }

  struct Outcome {
    Bytes listener_data;
    SessionKeys keys;
    Bytes confirmation;  ///< to be sent
  };
  /// The answer to this hello. After an error another answer may be taken: several may claim to be
  /// the listener. Errors: denied (it proves nothing; somebody else answers), unsupported (another
  /// version), corrupt.
  Result<Outcome> take(ConstByteSpan answer) const;

 private:
  DialHandshake(SessionTerms terms, Expected listener, bool has_aes)
      : terms_(std::move(terms)), listener_(std::move(listener)), has_aes_(has_aes) {}

  SessionTerms terms_;
  Expected listener_;
  bool has_aes_;
  Bytes hello_;
};

class AcceptHandshake {
 public:
  /// A hello that came to `self`. Errors: denied (it proves nothing, or is meant for another
  /// listener or backend), unsupported (another version), corrupt, invalid_argument (the secret has
  /// less than 128 bits). After an error nothing should be sent back.
  static Result<AcceptHandshake> begin(SessionTerms terms, const SessionParty& self,
                                       ConstByteSpan hello);

  /// Who claims to dial: a holder of the secret, or a replay of one, until take() succeeds.
  const SessionParty& dialler() const noexcept { return dialler_; }
  ConstByteSpan answer() const noexcept { return answer_; }
  /// The confirmation of this answer. Errors: denied, unsupported, corrupt.
  Result<SessionKeys> take(ConstByteSpan confirmation) const;

 private:
  explicit AcceptHandshake(SessionTerms terms) : terms_(std::move(terms)) {}

  SessionTerms terms_;
  SessionParty dialler_;
  Mac::Algorithm seals_ = Mac::Algorithm::siphash;
  Bytes hello_;
  Bytes answer_;
};

}  // namespace towpath::net
