// Cipher: metadata as it lies in an etcd that others can read too.
//
//   [ "TPEM" ][ version, u32 = 1 ][ what net/encryption.h makes ] docs/formats/etcd_metadata.md
//
// The key is made of the token that the agents share. The etcd's key is the context, so a value is
// good under that name only. A process that can write to the etcd can still remove metadata, or
// bring back what was there before. Thread: immutable.
#pragma once

#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/keys.h>
#include <towpath/net/token.h>

namespace towpath::rendezvous::etcd {

class Cipher {
 public:
  /// How many bytes a value has more than its metadata.
  static constexpr std::size_t kOverhead = 8 + 28;

  explicit Cipher(const net::Token& token);

  Bytes encrypt(std::string_view key, ConstByteSpan metadata) const;
  /// Errors: denied (not encrypted, or with another token, or changed), unsupported (of a version
  /// that is not known here).
  Result<Bytes> decrypt(std::string_view key, ConstByteSpan value) const;

 private:
  net::SymmetricKey key_;
};

/// Whether a value is one of encrypt()'s, of whichever version.
bool is_encrypted(ConstByteSpan value) noexcept;

}  // namespace towpath::rendezvous::etcd
