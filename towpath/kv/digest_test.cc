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

}  // namespace
}  // namespace towpath::kv
