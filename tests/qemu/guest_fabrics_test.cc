// The backend over a network: what it writes there lies on the drive behind.
#include "fabrics.h"

namespace towpath::guest {
namespace {

class GuestFabrics : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_drive("BEHIND")) GTEST_SKIP() << "this machine has other drives";
    if (!has_fabrics()) GTEST_SKIP() << kNoFabrics;
    ASSERT_NO_FATAL_FAILURE(connect_fabrics(GetParam()));
    drive = drive_called(GetParam());
  }
  Drive drive;
};

TEST_P(GuestFabrics, megabytes_arrive_on_the_drive_behind_and_come_back) {
  Mover mover(backend::Params{{"durable", "on"}});
  const Status used = mover.use(drive.generic, "rw:", 4 * kMiB, 4 * kMiB);
  ASSERT_TRUE(used.ok()) << used.to_string();
  const std::uint64_t length = 3 * kMiB + 512;
  const Bytes written = random_bytes(41, length);
  std::ranges::copy(written, mover.memory.begin());
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(0, 4 * kMiB, length)}).status.ok());
  EXPECT_EQ(read_block_device(drive_called("BEHIND").block, 4 * kMiB, length), written);
  std::ranges::fill(mover.memory, std::byte{0});
  ASSERT_TRUE(mover.move(TransferOp::read, {mover.segment(3, 4 * kMiB, length)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(mover.memory.subspan(3, length), written));
}

INSTANTIATE_TEST_SUITE_P(Ways, GuestFabrics, ::testing::Values("LOOP", "TCP"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace towpath::guest
