#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/net/encryption.h>
#include <towpath/rendezvous/etcd_cipher.h>
#include <towpath/wire/little_endian.h>

namespace towpath::rendezvous::etcd {

namespace {

constexpr std::string_view kMagic = "TPEM";
constexpr std::uint32_t kVersion = 1;  // behind the magic
constexpr std::size_t kHeadBytes = kMagic.size() + sizeof kVersion;
static_assert(Cipher::kOverhead == kHeadBytes + net::kEncryptionOverhead);

}  // namespace

Cipher::Cipher(const net::Token& token)
    : key_(net::derive_key(as_bytes(token.secret()), {}, "towpath etcd metadata v1")) {}

Bytes Cipher::encrypt(std::string_view key, ConstByteSpan metadata) const {
  Bytes value(kHeadBytes);
  std::ranges::copy(as_bytes(kMagic), value.begin());
  wire::store(ByteSpan(value).subspan(kMagic.size()), kVersion);
  const Bytes encrypted = net::encrypt(key_, as_bytes(key), metadata);
  value.insert(value.end(), encrypted.begin(), encrypted.end());
  return value;
}

Result<Bytes> Cipher::decrypt(std::string_view key, ConstByteSpan value) const {
  if (!is_encrypted(value))
    return error(Code::denied, "these metadata are not encrypted, and we have a token",
                 "give the same token file to all agents; releases before 0.2 do not encrypt");
  if (value.size() < kHeadBytes) return error(Code::corrupt, "encrypted metadata, cut short");
  const auto version = wire::load<std::uint32_t>(value.subspan(kMagic.size()));
  if (version != kVersion)
    return error(Code::unsupported,
                 cat("these metadata are encrypted as in version ", version,
                     "; this side knows version ", kVersion),
                 "use one release for all agents of a namespace");
  return net::decrypt(key_, as_bytes(key), value.subspan(kHeadBytes));
}

bool is_encrypted(ConstByteSpan value) noexcept { return as_text(value).starts_with(kMagic); }

}  // namespace towpath::rendezvous::etcd
