#include <optional>

#include <gtest/gtest.h>

#include <towpath/kv/tiers/host_tier.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/testing/recording_registrar.h>

namespace towpath::kv {
namespace {

/// In one piece for each block, or its layers apart.
class HostTierTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kBlockBytes = 3 * 2 * 8 * 70 * 2;

  void SetUp() override {
    layout::LayoutConfig config;
    config.num_blocks = 2;
    config.num_layers = 3;
    config.outer_dim = 2;
    config.page_size = 8;
    config.inner_dim = 70;
    auto builder = layout::PhysicalLayoutBuilder(registrar_).with_config(config);
    auto shaped = GetParam() ? std::move(builder).layer_separate(layout::BlockDimension::second)
                             : std::move(builder).fully_contiguous();
    memory_ = std::move(shaped).allocate_system().build().value();
    tier_ = HostTier::make(*memory_, {.block_directory = &block_directory_}).value();
  }

  static Bytes content(BlockHash hash) {
    Bytes bytes(kBlockBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((hash + i) * 0x9e3779b97f4a7c15U >> 56U);
    return bytes;
  }
  Status put(BlockHash hash, Bytes bytes, std::optional<BlockHash> parent = {}) {
    TierTask task{.kind = TierTask::Kind::put,
                  .hash = hash,
                  .digest = digest_of(content(hash), hash, DigestAlgorithm::crc32c),
                  .bytes = bytes,
                  .parent = parent};
    tier_->begin(task);
    EXPECT_TRUE(task.has_ended);
    return task.status;
  }
  /// Ok only with the block's bytes.
  Status get(BlockHash hash) {
    Bytes bytes(kBlockBytes);
    TierTask task{.kind = TierTask::Kind::get, .hash = hash, .digest = {}, .bytes = bytes};
    tier_->begin(task);
    EXPECT_TRUE(task.has_ended);
    EXPECT_TRUE(!task.status.ok() || bytes == content(hash)) << "a wrong block: " << hash;
    return task.status;
  }
  void flip_a_bit_of_every_slot() {
    for (std::uint64_t slot = 0; slot < 2; ++slot)
      memory_->bytes({slot, 2, 1}).value().back() ^= std::byte{4};
  }

  memory::testing::EventLog log_;
  memory::testing::RecordingRegistrar registrar_{log_, {}};
  BlockDirectory block_directory_;
  std::optional<layout::PhysicalLayout> memory_;
  std::unique_ptr<HostTier> tier_;
};

TEST_P(HostTierTest, what_is_put_comes_back) {
  EXPECT_TRUE(put(1, content(1)).ok());
  EXPECT_TRUE(put(2, content(2)).ok());
  EXPECT_TRUE(get(1).ok());
  EXPECT_TRUE(get(2).ok());
  EXPECT_EQ(get(3).code(), Code::not_found);
}

TEST_P(HostTierTest, bytes_that_are_not_the_block_are_not_kept_and_take_no_room) {
  EXPECT_TRUE(put(1, content(1)).ok());
  for (const std::size_t place : {std::size_t{0}, kBlockBytes / 2, kBlockBytes - 1}) {
    Bytes wrong = content(2);
    wrong[place] ^= std::byte{1};
    EXPECT_EQ(put(2, wrong).code(), Code::corrupt);
    EXPECT_EQ(get(2).code(), Code::not_found);
    EXPECT_EQ(block_directory_.tiers_of(2), 0U);
  }
  EXPECT_EQ(tier_->room()->blocks, 1U);
  EXPECT_TRUE(get(1).ok());
}

TEST_P(HostTierTest, room_is_what_it_has_of_what_it_can_have_and_what_went_for_others) {
  for (const BlockHash hash : {1U, 2U, 3U}) EXPECT_TRUE(put(hash, content(hash)).ok());
  const auto room = tier_->room();
  ASSERT_TRUE(room);
  EXPECT_EQ(room->blocks, 2U);
  EXPECT_EQ(room->most_blocks, 2U);
  EXPECT_EQ(room->evicted, 1U);
}

TEST_P(HostTierTest, its_policy_hears_which_block_stands_on_which) {
  tier_ = HostTier::make(*memory_,
                         {.policy = PolicyKind::lineage, .block_directory = &block_directory_})
              .value();
  EXPECT_TRUE(put(1, content(1)).ok());
  EXPECT_TRUE(put(2, content(2), 1).ok());
  EXPECT_TRUE(put(3, content(3)).ok());
  EXPECT_TRUE(get(1).ok());
  EXPECT_EQ(get(2).code(), Code::not_found) << "it was the end of a prompt";
}

TEST_P(HostTierTest, what_was_overwritten_in_memory_is_never_given) {
  EXPECT_TRUE(put(1, content(1)).ok());
  flip_a_bit_of_every_slot();
  EXPECT_EQ(get(1).code(), Code::corrupt);
  EXPECT_EQ(get(1).code(), Code::not_found) << "from now on a miss";
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostTierTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "layers_apart" : "in_one_piece"; });

}  // namespace
}  // namespace towpath::kv
