#include <random>

#include <gtest/gtest.h>

#include <towpath/kv/crc32c.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {
namespace {

// RFC 3720, B.4, and the check value of the catalogues.
TEST(Crc32cTest, agrees_with_the_published_values) {
  Bytes zeros(32), ones(32, std::byte{0xff}), rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(0, zeros), 0x8a9136aaU);
  EXPECT_EQ(crc32c(0, ones), 0x62a8ab43U);
  EXPECT_EQ(crc32c(0, rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(0, as_bytes("123456789")), 0xe3069283U);
}

TEST(Crc32cTest, instruction_and_table_agree_in_one_piece_and_in_many) {
  std::mt19937_64 random(1);
  Bytes bytes(1000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int round = 0; round < 200; ++round) {
    const ConstByteSpan part = ConstByteSpan(bytes).first(random() % bytes.size());
    const std::size_t cut = part.empty() ? 0 : random() % part.size();
    const std::uint32_t whole = crc32c(0, part);
    ASSERT_EQ(whole, crc32c_by_table(0, part));
    ASSERT_EQ(whole, crc32c(crc32c(0, part.first(cut)), part.subspan(cut)));
  }
}

TEST(DigestAlgorithmTest, each_depends_on_bytes_and_salt_and_says_its_name) {
  const Bytes bytes = to_bytes("a block's bytes");
  for (const auto algorithm : {DigestAlgorithm::xxh3_64, DigestAlgorithm::crc32c}) {
    const Digest digest = digest_of(bytes, 7, algorithm);
    EXPECT_EQ(digest, digest_of(bytes, 7, algorithm));
    EXPECT_NE(digest.value, digest_of(bytes, 8, algorithm).value);
    EXPECT_NE(digest.value, digest_of(ConstByteSpan(bytes).first(14), 7, algorithm).value);
    EXPECT_TRUE(to_string(digest).starts_with(name_of(algorithm)));
    Digester twice(7, algorithm);
    twice.add(bytes);
    (void)twice.finish();
    twice.add(ConstByteSpan(bytes).first(5));
    twice.add(ConstByteSpan(bytes).subspan(5));
    EXPECT_EQ(twice.finish(), digest);
  }
}

}  // namespace
}  // namespace towpath::kv
