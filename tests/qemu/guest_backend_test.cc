// The backend on drives: block lengths, transfer limits, what is written and what is not.
#include <ostream>
#include <random>

#include <fcntl.h>
#include <sys/swap.h>
#include <unistd.h>

#include "guest_drives.h"

namespace towpath::guest {
namespace {

class GuestBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_drive("PLAIN512")) GTEST_SKIP() << "this machine has other drives";
  }
};

struct Shape {
  const char* serial;
  std::uint32_t block_bytes;
  std::uint64_t most;  ///< at most so much in one command

  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name
  friend void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.serial; }
};

class GuestShapes : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!has_drive(GetParam().serial)) GTEST_SKIP() << "this machine has other drives";
    drive = drive_called(GetParam().serial);
  }
  Drive drive;
};

TEST_P(GuestShapes, megabytes_arrive_in_commands_that_drive_and_kernel_take) {
  Mover mover;
  const Status used = mover.use(drive.generic, "rw:", 4 * kMiB, 5 * kMiB);
  ASSERT_TRUE(used.ok()) << used.to_string();
  const auto info =
      (*mover.driver->open(drive.generic, backends::nvme::Access::read_write))->info();
  EXPECT_EQ(info.block_bytes, GetParam().block_bytes);
  EXPECT_LE(info.max_transfer_bytes, GetParam().most);
  const std::uint64_t length = 4 * kMiB + 3 * info.block_bytes;
  const Bytes written = random_bytes(GetParam().most, length);
  std::ranges::copy(written, mover.memory.begin());
  const auto outcome = mover.move(TransferOp::write, {mover.segment(0, 4 * kMiB + 4096, length)});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  EXPECT_EQ(outcome.bytes, length);
  EXPECT_EQ(mover.moved("direct", "write"), length);
  EXPECT_EQ(read_block_device(drive.block, 4 * kMiB + 4096, length), written);
  std::ranges::fill(mover.memory, std::byte{0});
  ASSERT_TRUE(
      mover.move(TransferOp::read, {mover.segment(0, 4 * kMiB + 4096, length)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(mover.memory.first(length), written));
}

TEST_P(GuestShapes, any_bytes_at_any_address_arrive_and_harm_no_others) {
  Mover mover;
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, 2 * kMiB).ok());
  Bytes expected = random_bytes(7, kMiB);
  std::ranges::copy(expected, mover.memory.begin());
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(0, 0, kMiB)}).status.ok());
  std::mt19937_64 random(11);
  for (std::uint64_t round = 0; round < 40; ++round) {
    const std::uint64_t offset = random() % (kMiB - 70'000);
    const std::uint64_t length = 1 + random() % (round % 4 == 0 ? 70'000 : 5000);
    const std::uint64_t at = 2 * kMiB + random() % 5000;
    const Bytes bytes = random_bytes(round, length);
    std::ranges::copy(bytes, mover.memory.begin() + static_cast<std::ptrdiff_t>(at));
    ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(at, offset, length)}).status.ok());
    std::ranges::copy(bytes, expected.begin() + static_cast<std::ptrdiff_t>(offset));
    const std::uint64_t back = 3 * kMiB + random() % 5000;
    ASSERT_TRUE(mover.move(TransferOp::read, {mover.segment(back, offset, length)}).status.ok());
    ASSERT_TRUE(std::ranges::equal(mover.memory.subspan(back, length), bytes)) << round;
  }
  EXPECT_EQ(read_block_device(drive.block, 0, kMiB), expected);
  EXPECT_GT(mover.moved("modify", "write"), 0U);
  EXPECT_GT(mover.moved("bounce", "read"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Drives, GuestShapes,
                         ::testing::Values(Shape{"PLAIN512", 512, 512U << 10U},
                                           Shape{"TINY4096", 4096, 8U << 10U},
                                           Shape{"ODD512", 512, 128U << 10U},
                                           Shape{"UNLIMITED4096", 4096, 8U << 20U}),
                         [](const auto& shape) { return std::string(shape.param.serial); });

TEST_F(GuestBackend, addresses_that_are_multiples_of_4_go_straight_and_others_are_counted) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover;
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, kMiB).ok());
  const Bytes written = random_bytes(5, 4096);
  std::ranges::copy(written, mover.memory.begin() + 4);
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(4, 8192, 4096)}).status.ok());
  EXPECT_EQ(mover.moved("direct", "write"), 4096U);
  EXPECT_EQ(read_block_device(drive.block, 8192, 4096), written);
  std::ranges::copy(written, mover.memory.begin() + 1);
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(1, 16384, 4096)}).status.ok());
  EXPECT_EQ(mover.moved("bounce", "write"), 4096U);
  EXPECT_EQ(read_block_device(drive.block, 16384, 4096), written);
}

TEST_F(GuestBackend, many_extents_go_at_a_depth_of_32) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover(backend::Params{{"depth", "32"}, {"durable", "on"}});
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, 32 * kMiB).ok());
  const Bytes written = random_bytes(6, 256 * 4096);
  std::ranges::copy(written, mover.memory.begin());
  backend::Segment scattered = mover.segment(0, 0, 4096);
  scattered.count = 256;
  scattered.local_stride = 4096;
  scattered.remote_stride = 65536;
  ASSERT_TRUE(mover.move(TransferOp::write, {scattered}).status.ok());
  std::ranges::fill(mover.memory, std::byte{0});
  ASSERT_TRUE(mover.move(TransferOp::read, {scattered}).status.ok());
  EXPECT_TRUE(std::ranges::equal(mover.memory.first(written.size()), written));
}

TEST_F(GuestBackend, cancelled_transfer_ends_and_is_quiet) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover(backend::Params{{"depth", "4"}});
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, 8 * kMiB).ok());
  const auto operation = mover.backend->make_operation();
  const std::vector segments{mover.segment(0, 0, 8 * kMiB)};
  operation->post({TransferOp::read, mover.connection.get(), segments});
  operation->cancel();
  mover.run(*operation);
  const auto& outcome = mover.events.last(*operation);
  EXPECT_TRUE(outcome.status.ok() || outcome.status.code() == Code::cancelled);
  std::ranges::fill(mover.memory, std::byte{0xA5});
  for (int i = 0; i < 50; ++i) mover.backend->progress();
  EXPECT_TRUE(std::ranges::all_of(mover.memory, [](std::byte b) { return b == std::byte{0xA5}; }));
}

// ---- what is refused

TEST_F(GuestBackend, region_that_was_not_given_for_writing_is_not_written_to) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover;
  ASSERT_TRUE(mover.use(drive.generic, "ro:", 0, kMiB).ok());
  EXPECT_TRUE(mover.move(TransferOp::read, {mover.segment(0, 0, 4096)}).status.ok());
  EXPECT_EQ(mover.move(TransferOp::write, {mover.segment(0, 0, 4096)}).status.code(), Code::denied);
}

TEST_F(GuestBackend, extent_beyond_the_end_is_refused) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover;
  EXPECT_EQ(mover.use(drive.generic, "ro:", 64 * kMiB - 512, 513).code(), Code::out_of_range);
}

TEST_F(GuestBackend, partitioned_drive_is_refused) {
  const Drive drive = drive_called("PARTITIONED");
  Mover mover;
  for (const char* mode : {"ro:", "rw:"}) {
    const Status used = mover.use(drive.generic, mode, 0, kMiB);
    EXPECT_EQ(used.code(), Code::denied) << used.to_string();
    EXPECT_NE(used.message().find("p1"), std::string::npos) << used.to_string();
  }
}

TEST_F(GuestBackend, drive_that_somebody_claimed_is_refused_for_writing) {
  const Drive drive = drive_called("ODD512");
  Mover mover;
  {
    const sys::Fd claim(::open(drive.block.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    ASSERT_TRUE(claim);
    EXPECT_EQ(mover.use(drive.generic, "rw:", 0, kMiB).code(), Code::denied);
    EXPECT_TRUE(mover.use(drive.generic, "ro:", 0, kMiB).ok());
  }
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, kMiB).ok());
  const sys::Fd late(::open(drive.block.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  EXPECT_FALSE(late) << "and nobody claims, or mounts, what we write to";
}

TEST_F(GuestBackend, drive_that_is_swapped_to_is_refused) {
  const Drive drive = drive_called("UNLIMITED4096");
  Mover mover;
  ASSERT_TRUE(mover.use(drive.generic, "rw:", 0, kMiB).ok());
  // A swap area: version 1, its last page, and its name at the end of the first page.
  std::ranges::fill(mover.memory.first(4096), std::byte{0});
  mover.memory[1024] = std::byte{1};
  mover.memory[1028] = std::byte{255};
  std::ranges::copy(as_bytes("SWAPSPACE2"), mover.memory.begin() + 4086);
  ASSERT_TRUE(mover.move(TransferOp::write, {mover.segment(0, 0, 4096)}).status.ok());
  mover.imported.reset();
  mover.registered.reset();
  if (::swapon(drive.block.c_str(), 0) != 0) GTEST_SKIP() << "this kernel does not swap";
  for (const char* mode : {"ro:", "rw:"}) {
    const Status used = mover.use(drive.generic, mode, 0, kMiB);
    EXPECT_EQ(used.code(), Code::denied) << used.to_string();
    EXPECT_NE(used.message().find("swapped"), std::string::npos) << used.to_string();
  }
  EXPECT_EQ(::swapoff(drive.block.c_str()), 0);
  EXPECT_TRUE(mover.use(drive.generic, "rw:", 0, kMiB).ok());
}

TEST_F(GuestBackend, block_device_is_refused_with_the_name_of_the_right_one) {
  const Drive drive = drive_called("PLAIN512");
  Mover mover;
  const Status used = mover.use(drive.block, "ro:", 0, kMiB);
  EXPECT_EQ(used.code(), Code::invalid_argument);
  EXPECT_NE(used.hint().find("/dev/ng0n1"), std::string::npos);
}

TEST_F(GuestBackend, blocks_with_metadata_are_refused) {
  const Drive drive = drive_called("METADATA");
  Mover mover;
  const Status used = mover.use(drive.generic, "ro:", 0, kMiB);
  EXPECT_TRUE(used.code() == Code::unsupported || used.code() == Code::unavailable)
      << used.to_string();
}

}  // namespace
}  // namespace towpath::guest
