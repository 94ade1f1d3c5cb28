#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <towpath/backends/nvme/testing/fake_system.h>

namespace towpath::backends::nvme {
namespace {

class InUseTest : public ::testing::Test {
 protected:
  void SetUp() override { system.add_drive(); }
  /// It is refused, and says why.
  void expect_refused(const std::string& why) {
    const Status status = check_unused(system.root(), "nvme0n1");
    EXPECT_EQ(status.code(), Code::denied) << status.to_string();
    EXPECT_NE(status.message().find(why), std::string::npos) << status.to_string();
    EXPECT_FALSE(status.hint().empty());
  }
  testing::FakeSystem system;
};

TEST_F(InUseTest, free_drive_is_free) {
  const Status status = check_unused(system.root(), "nvme0n1");
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_F(InUseTest, partition_is_reported_by_name) {
  system.put("sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
  expect_refused("nvme0n1p1");
}

TEST_F(InUseTest, holder_is_reported_by_name) {
  system.make_folder("sys/block/nvme0n1/holders/dm-3");
  expect_refused("dm-3");
}

TEST_F(InUseTest, mount_is_found_by_number) {
  system.put("proc/self/mountinfo",
             "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
             "40 22 259:0 / /mnt/kv rw,noatime shared:3 - ext4 /dev/root rw\n");
  expect_refused("/mnt/kv");
}

TEST_F(InUseTest, mount_with_a_number_of_its_own_is_found_by_name) {
  system.put("proc/self/mountinfo", "41 22 0:55 / /mnt/b rw - btrfs /dev/nvme0n1 rw\n");
  expect_refused("/mnt/b");
}

TEST_F(InUseTest, mount_of_another_drive_is_none_of_this_one) {
  system.put("proc/self/mountinfo", "41 22 259:1 / /mnt/b rw - ext4 /dev/nvme0n10 rw\n");
  EXPECT_TRUE(check_unused(system.root(), "nvme0n1").ok());
}

TEST_F(InUseTest, swap_is_found) {
  system.put("proc/swaps", "Filename Type\n/dev/nvme0n1 partition 1024 0 -2\n");
  expect_refused("swapped");
}

TEST_F(InUseTest, what_cannot_be_seen_is_taken_for_a_no) {
  EXPECT_EQ(check_unused(system.root(), "nvme7n1").code(), Code::unavailable);
  system.put("proc/self/mountinfo", std::string((1U << 20U) + 1, 'x'));
  EXPECT_EQ(check_unused(system.root(), "nvme0n1").code(), Code::unavailable) << "over-long";
  SystemRoot no_proc = system.root();
  no_proc.proc += "/nowhere";
  EXPECT_EQ(check_unused(no_proc, "nvme0n1").code(), Code::unavailable);
}

TEST_F(InUseTest, lines_that_are_no_mounts_are_passed_over) {
  system.put("proc/self/mountinfo", "\n - \nx\n1 2\n1 2 3 4 5 6 7 8\n");
  EXPECT_TRUE(check_unused(system.root(), "nvme0n1").ok());
}

TEST_F(InUseTest, namespace_is_found_by_the_number_of_its_device) {
  EXPECT_EQ(generic_name_of(system.root(), makedev(244, 0)).value(), "ng0n1");
  EXPECT_EQ(generic_name_of(system.root(), makedev(244, 1)).code(), Code::invalid_argument);
  EXPECT_EQ(block_name_of("ng12n3"), "nvme12n3");
}

TEST_F(InUseTest, kernels_limit_is_the_lesser_of_bytes_and_scattered_pages) {
  EXPECT_EQ(kernel_transfer_limit(system.root(), "nvme0n1"), 126U * 4096U);
  system.put("sys/block/nvme0n1/queue/max_segments", "65535\n");
  EXPECT_EQ(kernel_transfer_limit(system.root(), "nvme0n1"), 512U * 1024U);
  EXPECT_EQ(kernel_transfer_limit(system.root(), "nvme9n9"), UINT64_MAX);
}

TEST_F(InUseTest, zones_are_those_of_a_queue_that_is_host_managed) {
  EXPECT_EQ(kernel_zone_bytes(system.root(), "nvme0n1"), 0U) << "a kernel that knows no zones";
  system.put("sys/block/nvme0n1/queue/chunk_sectors", "2048\n");
  system.put("sys/block/nvme0n1/queue/zoned", "none\n");
  EXPECT_EQ(kernel_zone_bytes(system.root(), "nvme0n1"), 0U);
  system.put("sys/block/nvme0n1/queue/zoned", "host-managed\n");
  EXPECT_EQ(kernel_zone_bytes(system.root(), "nvme0n1"), 1U << 20U);
  system.put("sys/block/nvme0n1/queue/chunk_sectors", "garbage\n");
  EXPECT_EQ(kernel_zone_bytes(system.root(), "nvme0n1"), UINT64_MAX) << "zoned, all the same";
}

}  // namespace
}  // namespace towpath::backends::nvme
