#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/testing/config_of.h>

namespace towpath::blockcopy {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kLife = 77;

Bytes layout_message(const std::string& agent = "far", std::uint64_t incarnation = kLife) {
  layout::LayoutDescriptor made;
  made.config = layout::testing::config_of(2, 3, 4, 8);
  made.agent = {agent, incarnation};
  made.regions = {{4096, 2 * 3 * 2 * 4 * 8 * 2}};
  return *layout::encode(made);
}

LayoutPackage package_of(std::vector<PackedLayout> layouts) {
  agent::AgentMetadata metadata;
  metadata.identity = {"far", kLife};
  metadata.generation = 1;
  return {*agent::encode(metadata), std::move(layouts)};
}

Status refusal(const LayoutPackage& package) { return open_package(*encode(package)).status(); }

TEST(LayoutPackageTest, layouts_come_back_with_their_tiers_and_places) {
  const auto open = open_package(
      *encode(package_of({{5, "g2", 1, 4, layout_message()}, {6, "", 0, 0, layout_message()}})));
  ASSERT_TRUE(open.ok()) << open.status().to_string();
  EXPECT_EQ(open->agent, (AgentIdentity{"far", kLife}));
  ASSERT_EQ(open->layouts.size(), 2u);
  EXPECT_EQ(open->layouts[0].id, 5u);
  EXPECT_EQ(open->layouts[0].tier, "g2");
  EXPECT_EQ(open->layouts[0].first_layer, 1u);
  EXPECT_EQ(open->layouts[0].first_head, 4u);
  EXPECT_EQ(open->layouts[0].layout.config().num_layers, 3u);
  EXPECT_TRUE(open_package(*encode(package_of({})))->layouts.empty());
}

TEST(LayoutPackageTest, layouts_of_others_and_ids_twice_are_refused) {
  EXPECT_THAT(refusal(package_of({{1, "", 0, 0, layout_message("near")}})).to_string(),
              HasSubstr("comes with the metadata of"));
  EXPECT_EQ(refusal(package_of({{1, "", 0, 0, layout_message("far", kLife + 1)}})).code(),
            Code::invalid_argument);
  EXPECT_THAT(
      refusal(package_of({{1, "", 0, 0, layout_message()}, {1, "", 0, 0, layout_message()}}))
          .to_string(),
      HasSubstr("stands twice"));
}

TEST(LayoutPackageTest, what_is_over_a_limit_is_not_written) {
  EXPECT_FALSE(encode(package_of({{1, std::string(65, 'x'), 0, 0, layout_message()}})).ok());
  EXPECT_FALSE(encode(package_of({{1, "", std::uint64_t{1} << 32U, 0, layout_message()}})).ok());
}

TEST(LayoutPackageTest, every_cut_and_flipped_byte_is_refused) {
  const Bytes whole = *encode(package_of({{1, "g1", 0, 0, layout_message()}}));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(open_package(ConstByteSpan(whole).first(i)).ok());
    Bytes flipped = whole;
    flipped[i] ^= std::byte{0x10};
    EXPECT_FALSE(open_package(flipped).ok()) << i;
  }
}

}  // namespace
}  // namespace towpath::blockcopy
