#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/net/encryption.h>
#include <towpath/rendezvous/etcd_cipher.h>

namespace towpath::rendezvous::etcd {

namespace {

constexpr std::string_view kMagic = "TPEM";
constexpr std::string_view kHead("TPEM\1\0\0\0", 8);  // with the version
static_assert(Cipher::kOverhead == kHead.size() + net::kEncryptionOverhead);

}  // namespace

Cipher::Cipher(const net::Token& token)
    : key_(net::derive_key(as_bytes(token.secret()), {}, "towpath etcd metadata v1")) {}

Bytes Cipher::encrypt(std::string_view key, ConstByteSpan metadata) const {
  Bytes value(kHead.size());
  std::ranges::copy(as_bytes(kHead), value.begin());
  const Bytes encrypted = net::encrypt(key_, as_bytes(key), metadata);
  value.insert(value.end(), encrypted.begin(), encrypted.end());
  return value;
}

Result<Bytes> Cipher::decrypt(std::string_view key, ConstByteSpan value) const {
  if (!is_encrypted(value))
    return error(Code::denied, "these metadata are not encrypted, and we have a token",
                 "give the same token file to all agents; releases before 0.2 do not encrypt");
  if (!as_text(value).starts_with(kHead))
    return error(Code::unsupported, "these metadata are encrypted in a way of another release",
                 "use one release for all agents of a namespace");
  return net::decrypt(key_, as_bytes(key), value.subspan(kHead.size()));
}

bool is_encrypted(ConstByteSpan value) noexcept { return as_text(value).starts_with(kMagic); }

}  // namespace towpath::rendezvous::etcd
