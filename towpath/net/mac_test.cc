// Against vectors of their authors, and against libcrypto's for every size up to some heads.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <towpath/net/digest.h>
#include <towpath/net/mac.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

using Algorithm = Mac::Algorithm;

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (; !text.empty(); text.remove_prefix(2))
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(0, 2)), nullptr, 16)));
  return bytes;
}

const Bytes kCounting = from_hex("000102030405060708090a0b0c0d0e0f");

std::string stored(const Mac::Proof& proof) {
  std::array<std::byte, Mac::kProofBytes> bytes;
  wire::store(std::span(bytes), proof.low);
  wire::store(std::span(bytes).subspan(8), proof.high);
  return to_hex(bytes);
}

std::string proof_of_libcrypto(Algorithm algorithm, ConstByteSpan key, ConstByteSpan bytes) {
  const bool is_siphash = algorithm == Algorithm::siphash;
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(
      EVP_MAC_fetch(nullptr, is_siphash ? "SIPHASH" : "CMAC", nullptr), &EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(mac.get()), &EVP_MAC_CTX_free);
  std::size_t size = Mac::kProofBytes;
  std::string cipher = "AES-128-CBC";
  const OSSL_PARAM params[] = {
      is_siphash ? OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size)
                 : OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher.data(), 0),
      OSSL_PARAM_construct_end()};
  EXPECT_EQ(EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()),
                         key.size(), params),
            1);
  EXPECT_EQ(EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size()),
            1);
  Bytes proof(Mac::kProofBytes);
  EXPECT_EQ(EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(proof.data()), &size,
                          proof.size()),
            1);
  return to_hex(proof);
}

class MacTest : public ::testing::TestWithParam<Algorithm> {
 protected:
  void SetUp() override {
    if (!Mac::is_available(GetParam())) GTEST_SKIP() << "this processor has no AES instructions";
  }
};

TEST_P(MacTest, every_size_agrees_with_libcrypto) {
  const Mac mac(GetParam(), kCounting);
  Bytes bytes;
  for (unsigned size = 0; size < 400; ++size) {
    ASSERT_EQ(stored(mac.prove(bytes)), proof_of_libcrypto(GetParam(), kCounting, bytes)) << size;
    bytes.push_back(static_cast<std::byte>(size * 7));
  }
}

TEST_P(MacTest, every_key_agrees_with_libcrypto) {
  const Bytes bytes(41, std::byte{0x5a});
  Bytes key = kCounting;
  for (std::size_t bit = 0; bit < 8 * key.size(); ++bit) {
    key[bit / 8] ^= std::byte(1U << (bit % 8));
    ASSERT_EQ(stored(Mac(GetParam(), key).prove(bytes)), proof_of_libcrypto(GetParam(), key, bytes))
        << bit;
  }
}

TEST_P(MacTest, every_bit_counts) {
  const Mac mac(GetParam(), kCounting);
  Bytes bytes(41, std::byte{0x5a});
  const Mac::Proof proof = mac.prove(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
    EXPECT_FALSE(mac.prove(bytes) == proof) << bit;
    bytes[bit / 8] ^= std::byte(1U << (bit % 8));
  }
  EXPECT_TRUE(mac.prove(bytes) == proof);
}

INSTANTIATE_TEST_SUITE_P(Both, MacTest, ::testing::Values(Algorithm::siphash, Algorithm::aes_cmac));

TEST(SiphashTest, proof_of_known_input) {
  EXPECT_EQ(stored(Mac(Algorithm::siphash, kCounting).prove({})),
            "a3817f04ba25a8e66df67214c7550293");
}

/// RFC 4493, section 4.
TEST(AesCmacTest, proofs_of_known_inputs) {
  if (!Mac::is_available(Algorithm::aes_cmac)) GTEST_SKIP() << "this processor has no AES";
  const Mac mac(Algorithm::aes_cmac, from_hex("2b7e151628aed2a6abf7158809cf4f3c"));
  const Bytes bytes = from_hex(
      "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
      "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
  const auto proof_of = [&](std::size_t size) {
    return stored(mac.prove(ConstByteSpan(bytes).first(size)));
  };
  EXPECT_EQ(proof_of(0), "bb1d6929e95937287fa37d129b756746");
  EXPECT_EQ(proof_of(16), "070a16b46b4d4144f79bdd9dd04a287c");
  EXPECT_EQ(proof_of(40), "dfa66747de9ae63030ca32611497c827");
  EXPECT_EQ(proof_of(64), "51f0bebf7e3b9d92fc49741779363cfe");
}

}  // namespace
}  // namespace towpath::net
