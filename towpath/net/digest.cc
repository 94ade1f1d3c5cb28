#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <towpath/core/check.h>
#include <towpath/net/digest.h>

namespace towpath::net {

// OpenSSL fails at these only when it has no memory, or was built without SHA-256.
struct Sha256::Context {
  Context() : state(EVP_MD_CTX_new()) { begin(); }
  ~Context() { EVP_MD_CTX_free(state); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void begin() const {
    TOWPATH_CHECK(state != nullptr && EVP_DigestInit_ex(state, EVP_sha256(), nullptr) == 1,
                  "libcrypto has no SHA-256");
  }

  EVP_MD_CTX* const state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(ConstByteSpan bytes) {
  TOWPATH_CHECK(EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) == 1,
                "libcrypto does not digest");
}

Digest Sha256::finish() {
  Digest digest;
  TOWPATH_CHECK(EVP_DigestFinal_ex(context_->state, reinterpret_cast<unsigned char*>(digest.data()),
                                   nullptr) == 1,
                "libcrypto does not digest");
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
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                          reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  TOWPATH_CHECK(made != nullptr, "libcrypto has no HMAC");
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
