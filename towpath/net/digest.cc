#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <towpath/net/digest.h>
#include <towpath/net/openssl_memory.h>

namespace towpath::net {

struct Sha256::Context {
  Context() { begin(); }
  void begin() const { done(EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr)); }

  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state{allocated(EVP_MD_CTX_new()),
                                                                      &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(ConstByteSpan bytes) {
  done(EVP_DigestUpdate(context_->state.get(), bytes.data(), bytes.size()));
}

Digest Sha256::finish() {
  Digest digest;
  done(EVP_DigestFinal_ex(context_->state.get(), reinterpret_cast<unsigned char*>(digest.data()),
                          nullptr));
  context_->begin();
  return digest;
}

Digest sha256(ConstByteSpan bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

Digest hmac_sha256(ConstByteSpan key, ConstByteSpan message) {
  Digest digest;
  allocated(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                 reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                 reinterpret_cast<unsigned char*>(digest.data()), nullptr));
  return digest;
}

std::string to_hex(ConstByteSpan bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte each : bytes) {
    text.push_back(kDigits[std::to_integer<unsigned>(each) >> 4U]);
    text.push_back(kDigits[std::to_integer<unsigned>(each) & 15U]);
  }
  return text;
}

}  // namespace towpath::net
