#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/allocation.h>

namespace towpath::layout {
namespace {

using memory::Part;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Sizes = std::vector<std::uint64_t>;

constexpr std::uint64_t kHuge = UINT64_MAX - 100;

TEST(AllocationTest, the_published_example) {
  const Sizes sizes = {256, 256, 256};
  EXPECT_EQ(reserve_bytes(sizes, 1).value(), 1790u);
  EXPECT_THAT(cut({.address = 4096, .length = 1790}, sizes, 1).value(),
              ElementsAre(Part{0, 256}, Part{512, 256}, Part{1024, 256}));
}

TEST(AllocationTest, absolute_addresses_are_aligned_whatever_the_base) {
  const Sizes sizes = {256, 1, 512, 700};
  for (std::uint64_t base : {1u, 255u, 511u, 512u, 513u, 4096u}) {
    const auto parts =
        cut({.address = base, .length = reserve_bytes(sizes, 1).value()}, sizes, 1).value();
    EXPECT_EQ(parts[0].offset, 0u);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      EXPECT_EQ((base + parts[i].offset) % 512, 0u);
      EXPECT_GE(parts[i].offset, parts[i - 1].offset + sizes[i - 1]);
      EXPECT_LT(parts[i].offset, parts[i - 1].offset + sizes[i - 1] + 512);
    }
  }
}

TEST(AllocationTest, one_region_takes_exactly_its_size) {
  EXPECT_EQ(reserve_bytes(Sizes{768}, 1).value(), 768u);
  EXPECT_THAT(cut({.address = 4096, .length = 768}, Sizes{768}, 1).value(),
              ElementsAre(Part{0, 768}));
  EXPECT_EQ(reserve_bytes({}, 1).value(), 0u);
  EXPECT_THAT(cut({}, {}, 1).value(), IsEmpty());
}

TEST(AllocationTest, a_larger_alignment_of_the_layout_wins) {
  const Sizes sizes = {1024, 1024};
  EXPECT_EQ(reserve_bytes(sizes, 1024).value(), 1024u + 1024 + 1023);
  const std::uint64_t large = std::uint64_t{1} << 21;
  const std::uint64_t reserve = reserve_bytes(sizes, large).value();
  EXPECT_EQ(reserve, 2048 + 2 * (large - 1));
  const auto parts = cut({.address = 4096, .length = reserve}, sizes, large).value();
  for (const Part& part : parts) EXPECT_EQ((4096 + part.offset) % large, 0u);
}

TEST(AllocationTest, sums_that_wrap_are_errors) {
  const auto reason = [](const auto& result) {
    EXPECT_EQ(result.code(), Code::out_of_range);
    return std::string(result.status().message());
  };
  EXPECT_THAT(reason(reserve_bytes(Sizes{kHuge, 200}, 1)), HasSubstr("allocation size overflow"));
  EXPECT_THAT(reason(reserve_bytes(Sizes{1, kHuge}, 1)), HasSubstr("alignment padding overflow"));
  const RegionExtent all{.address = 0, .length = UINT64_MAX};
  EXPECT_THAT(reason(cut(all, Sizes{512, kHuge}, 1)), HasSubstr("offset overflow"));
  EXPECT_THAT(reason(cut(all, Sizes{kHuge, 1}, 1)), HasSubstr("alignment overflow"));
  EXPECT_THAT(reason(cut({.address = 4096, .length = UINT64_MAX}, Sizes{kHuge, 1}, 1)),
              HasSubstr("address overflow"));
}

TEST(AllocationTest, an_allocation_that_is_too_small_is_an_error) {
  const auto failed = cut({.address = 4096, .length = 1279}, Sizes{256, 256, 256}, 1);
  EXPECT_EQ(failed.code(), Code::out_of_range);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("1279 bytes is insufficient: region 2 ends at 1280"));
}

}  // namespace
}  // namespace towpath::layout
