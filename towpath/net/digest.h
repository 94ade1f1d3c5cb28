// SHA-256, and the keyed digests that signatures are made of (HMAC), by OpenSSL's libcrypto.
//
//   Sha256 digest;
//   while (...) digest.add(bytes);         // in slices, where all at once would take too long
//   to_hex(digest.finish());
//
// Thread: one at a time for a Sha256; the functions any.
#pragma once

#include <array>
#include <memory>
#include <string>

#include <towpath/core/bytes.h>

namespace towpath::net {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(ConstByteSpan bytes);
  /// Of all that was added; then it begins anew.
  Digest finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest sha256(ConstByteSpan bytes);
Digest hmac_sha256(ConstByteSpan key, ConstByteSpan message);

/// Lower case.
std::string to_hex(ConstByteSpan bytes);

}  // namespace towpath::net
