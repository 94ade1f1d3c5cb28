#include <algorithm>
#include <array>
#include <climits>
#include <memory>

#include <openssl/evp.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/encryption.h>
#include <towpath/net/openssl_memory.h>

namespace towpath::net {

namespace {

constexpr std::size_t kNonceBytes = 12;
constexpr int kTagBytes = 16;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* in(ConstByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

unsigned char* out(ByteSpan bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

int size_of(ConstByteSpan bytes) {
  TOWPATH_CHECK(bytes.size() <= INT_MAX, "one message of AES-GCM has at most 2^31 - 1 bytes");
  return static_cast<int>(bytes.size());
}

// The cipher is begun, and has seen the context.
Cipher begin(const SymmetricKey& key, ConstByteSpan nonce, ConstByteSpan context, bool encrypts) {
  Cipher cipher(allocated(EVP_CIPHER_CTX_new()), &EVP_CIPHER_CTX_free);
  done(EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, in(key.bytes()), in(nonce),
                         encrypts ? 1 : 0));
  int ignored = 0;
  done(EVP_CipherUpdate(cipher.get(), nullptr, &ignored, in(context), size_of(context)));
  return cipher;
}

}  // namespace

Bytes encrypt(const SymmetricKey& key, ConstByteSpan context, ConstByteSpan plain) {
  Bytes encrypted(plain.size() + kEncryptionOverhead);
  const ByteSpan all(encrypted);
  const ByteSpan nonce = all.first(kNonceBytes);
  const ByteSpan body = all.subspan(kNonceBytes, plain.size());
  fill_random(nonce);
  const Cipher cipher = begin(key, nonce, context, true);
  int written = 0;
  if (!plain.empty())
    done(EVP_CipherUpdate(cipher.get(), out(body), &written, in(plain), size_of(plain)));
  const ByteSpan tag = all.last(kTagBytes);
  done(EVP_CipherFinal_ex(cipher.get(), out(tag), &written));
  done(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, out(tag)));
  return encrypted;
}

Result<Bytes> decrypt(const SymmetricKey& key, ConstByteSpan context, ConstByteSpan encrypted) {
  if (encrypted.size() < kEncryptionOverhead)
    return error(Code::corrupt, cat(encrypted.size(), " encrypted bytes; at least ",
                                    kEncryptionOverhead, " are needed"));
  const ConstByteSpan nonce = encrypted.first(kNonceBytes);
  const ConstByteSpan body = encrypted.subspan(kNonceBytes, encrypted.size() - kEncryptionOverhead);
  std::array<std::byte, kTagBytes> tag;
  std::ranges::copy(encrypted.last(kTagBytes), tag.begin());
  const Cipher cipher = begin(key, nonce, context, false);
  Bytes plain(body.size());
  int written = 0;
  if (!body.empty())
    done(EVP_CipherUpdate(cipher.get(), out(plain), &written, in(body), size_of(body)));
  done(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, out(tag)));
  std::array<unsigned char, kTagBytes> rest;
  if (EVP_CipherFinal_ex(cipher.get(), rest.data(), &written) == 1) return plain;
  return error(Code::denied, "these bytes were encrypted with another key, or were changed",
               "give all agents the same token");
}

}  // namespace towpath::net
