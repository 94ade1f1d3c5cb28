#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <towpath/kv/digest.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/testing/recording_registrar.h>

namespace towpath::kv {
namespace {

layout::LayoutConfig config() {
  layout::LayoutConfig config;
  config.num_blocks = 3;
  config.num_layers = 4;
  config.outer_dim = 2;
  config.page_size = 8;
  config.inner_dim = 3;
  return config;
}

/// Each part of it with bytes of its own.
void fill_block(const layout::PhysicalLayout& layout, std::uint64_t block, std::uint32_t seed) {
  std::minstd_rand random(seed);
  for (std::uint64_t layer = 0; layer < 4; ++layer) {
    for (std::uint64_t outer = 0; outer < 2; ++outer)
      std::ranges::generate(*layout.bytes({block, layer, outer}),
                            [&] { return static_cast<std::byte>(random()); });
  }
}

TEST(DigestTest, is_the_same_in_every_layout_and_slot_and_another_for_every_change) {
  memory::testing::EventLog log;
  memory::testing::RecordingRegistrar registrar(log, {});
  auto whole = layout::PhysicalLayoutBuilder(registrar)
                   .with_config(config())
                   .fully_contiguous()
                   .allocate_system()
                   .build();
  auto layers = layout::PhysicalLayoutBuilder(registrar)
                    .with_config(config())
                    .layer_separate(layout::BlockDimension::second)
                    .allocate_system()
                    .build();
  ASSERT_TRUE(whole.ok() && layers.ok())
      << whole.status().to_string() << layers.status().to_string();
  fill_block(*whole, 2, 77);
  fill_block(*layers, 0, 77);
  Digester digester(5);
  const Digest there = *digest_block(digester, *whole, 2);
  EXPECT_EQ(digest_block(digester, *layers, 0).value(), there);
  EXPECT_NE(digest_block(digester, *layers, 1).value(), there);
  (*layers->bytes({0, 3, 1}))[47] ^= std::byte{1};
  EXPECT_NE(digest_block(digester, *layers, 0).value(), there);
  Digester salted(6);
  EXPECT_NE(digest_block(salted, *whole, 2)->value, there.value);
  EXPECT_EQ(digest_block(digester, *whole, 3).code(), Code::out_of_range);
  EXPECT_EQ(digest_block(digester, *whole, 2).value(), there) << "a failure leaves nothing behind";
}

TEST(DigestTest, of_a_block_in_another_format_is_another_or_none) {
  constexpr std::size_t kOfBlock = 8, kHeads = 2, kPiece = 4;  // tokens; heads; bytes of one
  memory::testing::EventLog log;
  memory::testing::RecordingRegistrar registrar(log, {});
  const auto build = [&](layout::BlockFormat format) {
    layout::LayoutConfig shape = config();
    shape.inner_dim = 4;
    shape.num_heads = kHeads;
    shape.format = format;
    return layout::PhysicalLayoutBuilder(registrar)
        .with_config(shape)
        .fully_contiguous()
        .allocate_system()
        .build()
        .value();
  };
  const auto nhd = build(layout::BlockFormat::nhd);
  const auto hnd = build(layout::BlockFormat::hnd);
  fill_block(nhd, 0, 77);
  for (std::uint64_t page = 0; page < 8; ++page) {
    const ByteSpan from = nhd.bytes({0, page / 2, page % 2}).value();
    const ByteSpan to = hnd.bytes({0, page / 2, page % 2}).value();
    for (std::size_t token = 0; token < kOfBlock; ++token)
      for (std::size_t head = 0; head < kHeads; ++head)
        std::ranges::copy(from.subspan((token * kHeads + head) * kPiece, kPiece),
                          to.subspan((head * kOfBlock + token) * kPiece).begin());
  }
  Digester digester(5);
  EXPECT_NE(digest_block(digester, nhd, 0).value(), digest_block(digester, hnd, 0).value());
  const auto universal = build(layout::BlockFormat::universal);
  EXPECT_EQ(digest_block(digester, universal, 0).code(), Code::unsupported);
}

// It rests on disks and travels: the same number on every processor, however the bytes are given.
TEST(DigestTest, of_known_bytes_is_the_known_number) {
  Bytes bytes(100'003);
  for (std::uint32_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3);
  EXPECT_EQ(digest_of(bytes, 5).value, 0x8cf793b0b299cfe9U);
  Digester digester(5);
  for (std::size_t at = 0, step = 1; at < bytes.size(); at += step, step = 3 * step + 1)
    digester.add(ConstByteSpan(bytes).subspan(at, std::min(step, bytes.size() - at)));
  EXPECT_EQ(digester.finish().value, 0x8cf793b0b299cfe9U);
}

// Blocks are a multiple of 64 bytes and lie at pages; spans of whatever length and place are copied
// by the same loops.
TEST(DigestTest, copied_bytes_are_the_bytes_and_their_digest_is_the_one_of_the_source) {
  constexpr std::size_t kMost = 70'001, kPlaces = 4200;
  Bytes source(kMost + kPlaces), target(kMost + kPlaces + 1);
  std::minstd_rand random(3);
  std::ranges::generate(source, [&] { return static_cast<std::byte>(random()); });
  for (const auto algorithm : {DigestAlgorithm::xxh3_64, DigestAlgorithm::crc32c})
    for (std::size_t place = 0; place < kPlaces; place += place < 130 ? 1 : 127) {
      const std::size_t length = place % 3 == 0 ? random() % kMost : random() % 1100;
      const ConstByteSpan from = ConstByteSpan(source).subspan(place, length);
      const std::size_t at = place % 2 == 0 ? kPlaces - place : random() % kPlaces;
      std::ranges::fill(target, std::byte{0xee});
      const ByteSpan to = ByteSpan(target).subspan(at, length);
      ASSERT_EQ(copy_and_digest(to, from, place, algorithm), digest_of(from, place, algorithm))
          << name_of(algorithm) << ", " << length << " bytes from " << place << " to " << at;
      ASSERT_TRUE(std::ranges::equal(to, from))
          << length << " bytes from " << place << " to " << at;
      ASSERT_EQ(target[at + length], std::byte{0xee}) << "nothing behind it was written";
      ASSERT_TRUE(at == 0 || target[at - 1] == std::byte{0xee}) << "nor anything before it";
    }
}

TEST(DigestTest, of_pieces_some_of_which_are_copied_is_that_of_the_whole) {
  Bytes source(50'000), target(source.size());
  std::minstd_rand random(4);
  std::ranges::generate(source, [&] { return static_cast<std::byte>(random()); });
  for (const auto algorithm : {DigestAlgorithm::xxh3_64, DigestAlgorithm::crc32c}) {
    Digester digester(9, algorithm);
    for (std::size_t at = 0, step = 1, turn = 0; at < source.size(); at += step, ++turn) {
      step = std::min<std::size_t>(1 + random() % 5000, source.size() - at);
      const ConstByteSpan from = ConstByteSpan(source).subspan(at, step);
      if (turn % 3 == 2)
        digester.add(from);
      else
        digester.copy(ByteSpan(target).subspan(at, step), from);
    }
    EXPECT_EQ(digester.finish(), digest_of(source, 9, algorithm)) << name_of(algorithm);
  }
}

}  // namespace
}  // namespace towpath::kv
