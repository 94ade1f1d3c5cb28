// HKDF against the vectors of RFC 5869 (appendix A).
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <towpath/net/keys.h>

namespace towpath::net {
namespace {

Bytes counting(unsigned from, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(from + i);
  return bytes;
}

std::string hkdf(const Bytes& secret, const Bytes& salt, const Bytes& info, std::size_t size) {
  Bytes out(size);
  hkdf_sha256(secret, salt, info, out);
  return to_hex(out);
}

TEST(KeysTest, hkdf_of_known_inputs) {
  const Bytes secret(22, std::byte{0x0b});
  EXPECT_EQ(hkdf(secret, counting(0, 13), counting(0xf0, 10), 42),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(hkdf(secret, {}, {}, 42),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(KeysTest, hkdf_of_a_long_input_and_more_than_two_blocks) {
  EXPECT_EQ(hkdf(counting(0, 80), counting(0x60, 80), counting(0xb0, 80), 82),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41"
            "c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

TEST(KeysTest, unlike_uses_give_unlike_keys) {
  const Bytes secret = counting(1, kMinSecretBytes);
  const SymmetricKey one = derive_key(secret, {}, "one");
  EXPECT_TRUE(equal_in_constant_time(one.bytes(), derive_key(secret, {}, "one").bytes()));
  EXPECT_FALSE(equal_in_constant_time(one.bytes(), derive_key(secret, {}, "two").bytes()));
  EXPECT_FALSE(
      equal_in_constant_time(one.bytes(), derive_key(secret, counting(9, 1), "one").bytes()));
}

TEST(KeysTest, comparison_is_of_all_bytes_and_of_the_size) {
  const Bytes bytes = counting(0, 33);
  EXPECT_TRUE(equal_in_constant_time(bytes, counting(0, 33)));
  EXPECT_TRUE(equal_in_constant_time({}, {}));
  EXPECT_FALSE(equal_in_constant_time(bytes, counting(0, 32)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes other = bytes;
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(equal_in_constant_time(bytes, other)) << i;
  }
}

TEST(KeysTest, random_bytes_fill_any_size_and_do_not_repeat) {
  fill_random({});
  for (const std::size_t size : {16U, 63U, 64U, 65U, 1000U}) {
    Bytes a(size);
    Bytes b(size);
    fill_random(a);
    fill_random(b);
    EXPECT_NE(a, b);
    EXPECT_FALSE(std::ranges::equal(ByteSpan(a).last(8), Bytes(8))) << "filled to the end";
  }
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace towpath::net
