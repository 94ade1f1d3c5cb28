#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <xxhash.h>

#include <towpath/kv/xxh3.h>

namespace towpath::kv {
namespace {

/// Those that this processor has.
std::vector<Xxh3::Instructions> instructions() {
  if (!Xxh3::is_possible()) return {};
  std::vector<Xxh3::Instructions> all = {Xxh3::Instructions::avx2};
  if (Xxh3::best() == Xxh3::Instructions::avx512) all.push_back(Xxh3::Instructions::avx512);
  return all;
}

Bytes random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  Bytes bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

class Xxh3Test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (instructions().empty()) GTEST_SKIP() << "the processor has no AVX2: libxxhash's is taken";
  }
};

TEST_F(Xxh3Test, is_the_number_of_libxxhash_at_every_length) {
  const Bytes all = random_bytes(2200);
  for (const auto one : instructions())
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{7}}) {
      Xxh3 sum(seed, one), copying(seed, one);
      for (std::size_t length = 0; length <= all.size(); ++length) {
        const ConstByteSpan bytes = ConstByteSpan(all).first(length);
        Bytes copy(length);
        sum.add(bytes);
        copying.copy(copy, bytes);
        const std::uint64_t wanted = XXH3_64bits_withSeed(bytes.data(), length, seed);
        ASSERT_EQ(sum.finish(), wanted) << length << " bytes, seed " << seed;
        ASSERT_EQ(copying.finish(), wanted) << length << " bytes, seed " << seed;
        ASSERT_TRUE(std::ranges::equal(copy, bytes)) << length;
      }
    }
}

TEST_F(Xxh3Test, does_not_depend_on_how_the_bytes_are_given) {
  const Bytes all = random_bytes(20'000);
  std::mt19937_64 random(9);
  for (const auto one : instructions()) {
    Xxh3 sum(3, one);
    for (int round = 0; round < 400; ++round) {
      const ConstByteSpan bytes = ConstByteSpan(all).first(random() % all.size());
      const std::size_t most = std::size_t{1} << (1 + random() % 13);
      Bytes copy(bytes.size());
      std::size_t copied = 0;
      for (std::size_t at = 0, step = 0; at < bytes.size(); at += step) {
        step = std::min<std::size_t>(random() % most + round % 2, bytes.size() - at);
        const bool is_copy = random() % 2 == 0;
        if (is_copy)
          sum.copy(ByteSpan(copy).subspan(at, step), bytes.subspan(at, step));
        else
          sum.add(bytes.subspan(at, step));
        if (!is_copy) std::ranges::copy(bytes.subspan(at, step), &copy[at]);
        copied += is_copy ? step : 0;
      }
      ASSERT_EQ(sum.finish(), XXH3_64bits_withSeed(bytes.data(), bytes.size(), 3)) << round;
      ASSERT_TRUE(std::ranges::equal(copy, bytes)) << round << ", " << copied << " were copied";
    }
  }
}

}  // namespace
}  // namespace towpath::kv
