// Whole programs on drives: the command, and one in C over libnixl_capi.so. run_guest.py carries
// them into the guest's root.
#include "guest_programs.h"

#include "guest_drives.h"

namespace towpath::guest {
namespace {

class GuestPrograms : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_drive(GetParam())) GTEST_SKIP() << "this machine has other drives";
    drive = drive_called(GetParam());
  }
  Drive drive;
};

TEST_P(GuestPrograms, bench_measures_the_drive_and_every_byte_is_right) {
  if (!has_program("/towpath")) GTEST_SKIP() << "the command was not built";
  for (const char* op : {"WRITE", "READ"}) {
    const Ended ended =
        run(cat("/towpath bench --backend nvme --target_seg_type BLK --overwrite_drive --drive ",
                drive.generic, " --op_type ", op, " --start_block_size 4K --max_block_size 8K",
                " --max_batch_size 2 --num_iter 4 --warmup_iter 1 --json -"));
    EXPECT_EQ(ended.status, 0) << op;
    EXPECT_NE(ended.said.find("\"passed\": true"), std::string::npos) << ended.said;
    EXPECT_EQ(ended.said.find("\"verified\": false"), std::string::npos) << ended.said;
    EXPECT_NE(ended.said.find(drive.generic), std::string::npos) << ended.said;
  }
  // A witness that is not ours: of what it filled the drive with, the block layer sees something.
  EXPECT_NE(read_block_device(drive.block, 0, 4096), Bytes(4096));
}

TEST_P(GuestPrograms, program_in_c_keeps_bytes_as_nixls_block_segments) {
  EXPECT_EQ(run(cat("/nixl_drive ", drive.generic)).status, 0);
  EXPECT_NE(read_block_device(drive.block, kMiB, 4096), Bytes(4096));
}

INSTANTIATE_TEST_SUITE_P(Drives, GuestPrograms, ::testing::Values("PLAIN512", "TINY4096"),
                         [](const auto& shape) { return std::string(shape.param); });

TEST(GuestProgramsRefused, program_in_c_is_not_given_a_partitioned_drive) {
  if (!has_drive("PARTITIONED")) GTEST_SKIP() << "this machine has other drives";
  const Drive drive = drive_called("PARTITIONED");
  const Bytes before = read_block_device(drive.block, 0, kMiB);
  EXPECT_EQ(run(cat("/nixl_drive ", drive.generic, " refused")).status, 0);
  EXPECT_EQ(read_block_device(drive.block, 0, kMiB), before);
}

}  // namespace
}  // namespace towpath::guest
