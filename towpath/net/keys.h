// Keys: random nonces, keys derived from a secret (HKDF, RFC 5869), and a comparison for proofs.
//
//   SymmetricKey key = derive_key(secret, salt, "towpath session v1 key of the dialler");
//   if (!equal_in_constant_time(proof, hmac_sha256(key.bytes(), transcript))) ...
//
// Invariants: a key is wiped when it dies, and never printed.
// Thread: any; a SymmetricKey is immutable.
#pragma once

#include <array>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/net/digest.h>

namespace towpath::net {

/// Bytes of a secret that is worth the name: 128 bits. What is shorter is refused by its reader.
inline constexpr std::size_t kMinSecretBytes = 16;

using Nonce = std::array<std::byte, 32>;

/// From the kernel's generator. Cost: a system call.
void fill_random(ByteSpan into);
Nonce random_nonce();

/// The same time wherever two values of one size differ. Values of unlike sizes are not equal; a
/// size is no secret.
bool equal_in_constant_time(ConstByteSpan a, ConstByteSpan b) noexcept;

class SymmetricKey {
 public:
  static constexpr std::size_t kBytes = 32;

  SymmetricKey() = default;
  explicit SymmetricKey(const std::array<std::byte, kBytes>& bytes) : bytes_(bytes) {}
  SymmetricKey(const SymmetricKey&) = default;
  SymmetricKey& operator=(const SymmetricKey&) = default;
  ~SymmetricKey();

  ConstByteSpan bytes() const noexcept { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

/// Fills `into` (at most 8,160 bytes) by HKDF-SHA-256. One secret gives unrelated keys for unlike
/// `info`: name the protocol, its version and the key's use. `salt` may be empty, and is public.
void hkdf_sha256(ConstByteSpan secret, ConstByteSpan salt, ConstByteSpan info, ByteSpan into);
SymmetricKey derive_key(ConstByteSpan secret, ConstByteSpan salt, std::string_view info);

}  // namespace towpath::net
