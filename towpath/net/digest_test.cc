// Against the vectors of FIPS 180-2 (appendix B) and RFC 4231.
#include <string>

#include <gtest/gtest.h>

#include <towpath/net/digest.h>

namespace towpath::net {
namespace {

std::string digest_of(std::string_view text) { return to_hex(sha256(as_bytes(text))); }

TEST(DigestTest, sha256_of_known_texts) {
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, slices_make_the_same_as_the_whole) {
  Sha256 digest;
  for (int round = 0; round < 2; ++round) {
    for (const std::string_view slice : {"a", "", "bc"}) digest.add(as_bytes(slice));
    EXPECT_EQ(digest.finish(), sha256(as_bytes("abc"))) << "it begins anew after finish()";
  }
}

TEST(DigestTest, hmac_of_known_texts) {
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes(std::string(131, '\xaa')),
                               as_bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace towpath::net
