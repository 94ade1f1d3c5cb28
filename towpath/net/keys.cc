#include <algorithm>
#include <cstdint>
#include <cstring>

#include <openssl/crypto.h>

#include <towpath/core/check.h>
#include <towpath/net/keys.h>
#include <towpath/sys/random.h>

namespace towpath::net {

void fill_random(ByteSpan into) {
  std::array<std::uint64_t, 8> numbers;
  while (!into.empty()) {
    sys::random_u64s(numbers);
    const std::size_t some = std::min(into.size(), sizeof numbers);
    std::memcpy(into.data(), numbers.data(), some);
    into = into.subspan(some);
  }
  OPENSSL_cleanse(numbers.data(), sizeof numbers);
}

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce);
  return nonce;
}

bool equal_in_constant_time(ConstByteSpan a, ConstByteSpan b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

SymmetricKey::~SymmetricKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

// RFC 5869: T(i) = HMAC(PRK, T(i-1) | info | i), one after the other.
void hkdf_sha256(ConstByteSpan secret, ConstByteSpan salt, ConstByteSpan info, ByteSpan into) {
  TOWPATH_CHECK(into.size() <= 255 * sizeof(Digest), "HKDF gives at most 8,160 bytes");
  Digest extracted = hmac_sha256(salt, secret);
  Digest block{};
  Bytes message;
  for (std::uint8_t index = 1; !into.empty(); ++index) {
    if (index > 1) message.assign(block.begin(), block.end());
    message.insert(message.end(), info.begin(), info.end());
    message.push_back(std::byte{index});
    block = hmac_sha256(extracted, message);
    OPENSSL_cleanse(message.data(), message.size());
    message.clear();
    const std::size_t some = std::min(into.size(), block.size());
    std::copy_n(block.begin(), some, into.begin());
    into = into.subspan(some);
  }
  OPENSSL_cleanse(extracted.data(), extracted.size());
  OPENSSL_cleanse(block.data(), block.size());
}

SymmetricKey derive_key(ConstByteSpan secret, ConstByteSpan salt, std::string_view info) {
  std::array<std::byte, SymmetricKey::kBytes> bytes;
  hkdf_sha256(secret, salt, as_bytes(info), bytes);
  SymmetricKey key(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

}  // namespace towpath::net
