// Encryption: bytes that only holders of a key can read, or change without being found out.
// AES-256-GCM (NIST SP 800-38D) by libcrypto.
//
//   [ nonce, 12 random bytes ][ as many bytes as the plain ones ][ tag, 16 bytes ]
//
// Limits: 2^32 messages for one key, since nonces are random (the same, 8.3). It does not prevent
// that an older message is shown again. Thread: any.
#pragma once

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/keys.h>

namespace towpath::net {

inline constexpr std::size_t kEncryptionOverhead = 12 + 16;

/// `context` is not part of the result, and decrypt() must be given the same: it says what the
/// bytes are for, so that they are good for nothing else. At most 2^31 - 1 bytes each.
Bytes encrypt(const SymmetricKey& key, ConstByteSpan context, ConstByteSpan plain);

/// Errors: denied (another key, another context, or something was changed), corrupt (too short to
/// have come from encrypt()).
Result<Bytes> decrypt(const SymmetricKey& key, ConstByteSpan context, ConstByteSpan encrypted);

}  // namespace towpath::net
