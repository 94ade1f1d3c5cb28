// Against a vector of its authors, and against libcrypto's for every size up to some frames' heads.
#include <memory>

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <towpath/net/digest.h>
#include <towpath/net/sip_mac.h>

namespace towpath::net {
namespace {

std::array<std::byte, SipMac::kKeyBytes> counting_key() {
  std::array<std::byte, SipMac::kKeyBytes> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  return key;
}

std::array<std::byte, SipMac::kProofBytes> stored(const SipMac::Proof& proof) {
  std::array<std::byte, SipMac::kProofBytes> bytes;
  wire::store(std::span(bytes), proof.low);
  wire::store(std::span(bytes).subspan(8), proof.high);
  return bytes;
}

std::string proof_of_libcrypto(ConstByteSpan key, ConstByteSpan bytes) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(
      EVP_MAC_fetch(nullptr, "SIPHASH", nullptr), &EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(mac.get()), &EVP_MAC_CTX_free);
  std::size_t size = SipMac::kProofBytes;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                               OSSL_PARAM_construct_end()};
  EXPECT_EQ(EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()),
                         key.size(), params),
            1);
  EXPECT_EQ(EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size()),
            1);
  Bytes proof(SipMac::kProofBytes);
  EXPECT_EQ(EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(proof.data()), &size,
                          proof.size()),
            1);
  return to_hex(proof);
}

TEST(SipMacTest, proof_of_known_input) {
  EXPECT_EQ(to_hex(stored(SipMac(counting_key()).prove({}))), "a3817f04ba25a8e66df67214c7550293");
}

TEST(SipMacTest, every_size_agrees_with_libcrypto) {
  const auto key = counting_key();
  const SipMac mac(key);
  Bytes bytes;
  for (unsigned size = 0; size < 400; ++size) {
    ASSERT_EQ(to_hex(stored(mac.prove(bytes))), proof_of_libcrypto(key, bytes)) << size;
    bytes.push_back(static_cast<std::byte>(size * 7));
  }
}

TEST(SipMacTest, every_bit_counts) {
  const SipMac mac(counting_key());
  Bytes bytes(41, std::byte{0x5a});
  const SipMac::Proof proof = mac.prove(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
    EXPECT_FALSE(mac.prove(bytes) == proof) << bit;
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
  }
  EXPECT_TRUE(mac.prove(bytes) == proof);
}

}  // namespace
}  // namespace towpath::net
