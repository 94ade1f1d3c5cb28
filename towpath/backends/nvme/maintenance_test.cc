#include <cerrno>

#include <towpath/backends/nvme/maintenance.h>
#include <towpath/backends/nvme/testing/nvme_fixture.h>

namespace towpath::backends::nvme {
namespace {

using NvmeMaintenanceTest = NvmeFixture;

TEST_F(NvmeMaintenanceTest, flush_sends_one) {
  open();
  target->keeps = true;
  EXPECT_TRUE(flush(*target).ok());
  ASSERT_EQ(target->seen.size(), 1U);
  EXPECT_EQ(target->seen[0].opcode, 0);
  target->faults = {{.result = 0x0006}};
  EXPECT_EQ(flush(*target).code(), Code::io_error);
  target->removed = true;
  EXPECT_EQ(flush(*target).code(), Code::not_found);
}

TEST_F(NvmeMaintenanceTest, deallocated_blocks_are_given_back_and_no_others) {
  open();
  const Bytes before = random_bytes(6, 16 * 512);
  put_on_device(0, before);
  const BlockRange ranges[] = {{.lba = 2, .blocks = 3}, {.lba = 9, .blocks = 1}};
  EXPECT_TRUE(deallocate(*target, ranges).ok());
  Bytes expected = before;
  std::fill_n(expected.begin() + 2 * 512, 3 * 512, std::byte{0});
  std::fill_n(expected.begin() + 9 * 512, 512, std::byte{0});
  EXPECT_EQ(on_device(0, 16 * 512), expected);
}

TEST_F(NvmeMaintenanceTest, more_ranges_than_a_command_holds_go_in_several) {
  open();
  target->keeps = true;
  std::vector<BlockRange> ranges;
  for (std::uint64_t i = 0; i < 600; ++i) ranges.push_back({.lba = 2 * i, .blocks = 1});
  EXPECT_TRUE(deallocate(*target, ranges).ok());
  ASSERT_EQ(target->seen.size(), 3U);
  EXPECT_EQ(target->seen[2].cdw10, 600U - 512U - 1U);
}

TEST_F(NvmeMaintenanceTest, deallocation_is_held_to_the_namespace_and_to_the_word_of_its_owner) {
  open({}, {}, 100 * 512);
  target->keeps = true;
  const BlockRange beyond[] = {{.lba = 99, .blocks = 2}};
  const BlockRange empty[] = {{.lba = 1, .blocks = 0}};
  const BlockRange good[] = {{.lba = 1, .blocks = 1}};
  EXPECT_EQ(deallocate(*target, beyond).code(), Code::out_of_range);
  EXPECT_EQ(deallocate(*target, empty).code(), Code::invalid_argument);
  EXPECT_TRUE(target->seen.empty()) << "nothing reached the drive";
  use_extent(0, 512, "ro:");
  EXPECT_EQ(deallocate(*target, good).code(), Code::denied);
  EXPECT_TRUE(target->seen.empty()) << "nothing reached the drive";
  open({.deallocates = false});
  EXPECT_EQ(deallocate(*target, good).code(), Code::unsupported);
}

}  // namespace
}  // namespace towpath::backends::nvme
