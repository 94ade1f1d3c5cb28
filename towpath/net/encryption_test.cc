#include <gtest/gtest.h>

#include <towpath/net/encryption.h>

namespace towpath::net {
namespace {

SymmetricKey key_of(std::string_view secret) { return derive_key(as_bytes(secret), {}, "test"); }

TEST(EncryptionTest, comes_back_with_key_and_context) {
  const SymmetricKey key = key_of("a secret of both sides");
  for (const std::size_t size : {0U, 1U, 15U, 16U, 4097U}) {
    const Bytes plain(size, std::byte{7});
    const Bytes encrypted = encrypt(key, as_bytes("here"), plain);
    EXPECT_EQ(encrypted.size(), size + kEncryptionOverhead);
    const auto again = decrypt(key, as_bytes("here"), encrypted);
    ASSERT_TRUE(again.ok()) << size << ": " << again.status().to_string();
    EXPECT_EQ(*again, plain);
  }
}

TEST(EncryptionTest, each_change_is_found) {
  const SymmetricKey key = key_of("a secret of both sides");
  const Bytes encrypted = encrypt(key, as_bytes("here"), as_bytes("metadata"));
  for (std::size_t bit = 0; bit < 8 * encrypted.size(); ++bit) {
    Bytes changed = encrypted;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_EQ(decrypt(key, as_bytes("here"), changed).code(), Code::denied) << "bit " << bit;
  }
  for (std::size_t size = 0; size < encrypted.size(); ++size)
    EXPECT_FALSE(decrypt(key, as_bytes("here"), ConstByteSpan(encrypted).first(size)).ok()) << size;
  EXPECT_EQ(decrypt(key, as_bytes("there"), encrypted).code(), Code::denied);
  EXPECT_EQ(decrypt(key_of("another"), as_bytes("here"), encrypted).code(), Code::denied);
}

TEST(EncryptionTest, shows_nothing_of_what_it_holds) {
  const SymmetricKey key = key_of("a secret of both sides");
  const Bytes plain(64, std::byte{'x'});
  const Bytes one = encrypt(key, {}, plain);
  EXPECT_NE(one, encrypt(key, {}, plain)) << "another nonce for each";
  EXPECT_EQ(as_text(one).find("xxxx"), std::string_view::npos);
}

// NIST's test vector (GCM specification, test case 14: a key and a block of zeros), with its nonce.
TEST(EncryptionTest, is_aes_256_gcm) {
  static constexpr unsigned char kBytes[] = {
      0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,  // the nonce
      0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3,
      0xba, 0xf3, 0x9d, 0x18, 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
      0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
  const auto plain = decrypt(SymmetricKey(), {}, std::as_bytes(std::span(kBytes)));
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  EXPECT_EQ(*plain, Bytes(16, std::byte{0}));
}

}  // namespace
}  // namespace towpath::net
