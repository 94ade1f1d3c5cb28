// A zoned namespace: it is read like any other, and never written to.
#include <fcntl.h>
#include <unistd.h>

#include <towpath/backends/nvme/nvme_status.h>
#include <towpath/backends/nvme/probe.h>
#include <towpath/sys/fd.h>

#include "guest_drives.h"

namespace towpath::guest {
namespace {

constexpr std::uint64_t kZone = kMiB;  // as run_guest.py makes them

class GuestZones : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_drive("ZONED")) GTEST_SKIP() << "this machine has other drives";
    drive = drive_called("ZONED");
  }
  /// Through the block layer, which keeps the order of a zone: two of them, from the first on.
  Bytes write_two_zones() const {
    const Bytes bytes = random_bytes(31, 2 * kZone);
    const auto aligned = sys::Mapping::anonymous(bytes.size());
    std::ranges::copy(bytes, aligned->data());
    const sys::Fd device(::open(drive.block.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    EXPECT_TRUE(device) << drive.block;
    for (std::uint64_t at = 0; at < bytes.size(); at += kZone / 2)
      EXPECT_EQ(::pwrite(device.get(), aligned->data() + at, kZone / 2, static_cast<off_t>(at)),
                static_cast<ssize_t>(kZone / 2));
    return bytes;
  }
  Drive drive;
};

TEST_F(GuestZones, writing_is_refused_and_says_why) {
  Mover mover;
  const Status used = mover.use(drive.generic, "rw:", 0, kMiB);
  EXPECT_EQ(used.code(), Code::unsupported);
  EXPECT_NE(used.message().find("zones of 1 MiB"), std::string_view::npos) << used.to_string();
  EXPECT_NE(used.hint().find("ro:"), std::string_view::npos) << used.to_string();
}

TEST_F(GuestZones, bytes_across_the_ends_of_zones_are_read_in_commands_that_keep_them) {
  const Bytes written = write_two_zones();
  Mover mover;
  const Status used = mover.use(drive.generic, "ro:", 0, 4 * kZone);
  ASSERT_TRUE(used.ok()) << used.to_string();
  ASSERT_TRUE(mover.move(TransferOp::read, {mover.segment(0, 0, 2 * kZone)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(mover.memory.first(2 * kZone), written));
  for (const std::uint64_t length : {8192U, 65536U, 3001U}) {  // around the end of the first
    const std::uint64_t from = kZone - length / 2;
    const auto outcome = mover.move(TransferOp::read, {mover.segment(1, from, length)});
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_TRUE(std::ranges::equal(mover.memory.subspan(1, length),
                                   std::span(written).subspan(from, length)))
        << length;
  }
}

// What the cut is for: the drive refuses a command across.
TEST_F(GuestZones, command_across_the_end_of_a_zone_is_the_drives_refusal) {
  using namespace backends::nvme;
  const auto target = kernel_driver()->open(drive.generic, Access::read_only);
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_EQ((*target)->info().zone_bytes, kZone);
  const auto buffer = sys::Mapping::anonymous(8192);
  const std::uint32_t block = (*target)->info().block_bytes;
  const auto across = encode_read({.namespace_id = (*target)->info().id,
                                   .lba = kZone / block - 1,
                                   .blocks = 2,
                                   .block_bytes = block,
                                   .address = address_of(buffer->data())});
  const std::int32_t result = (*target)->execute(*across);
  ASSERT_GT(result, 0);
  EXPECT_EQ(name_of(NvmeStatus{static_cast<std::uint16_t>(result)}), "Zone Boundary Error");
}

TEST_F(GuestZones, doctor_says_that_it_can_be_read_only) {
  for (const Finding& finding : backends::nvme::probe_namespaces({})) {
    if (finding.source != drive.generic) continue;
    EXPECT_EQ(finding.verdict, Verdict::degraded);
    EXPECT_NE(finding.reason.find("zoned"), std::string::npos) << finding.reason;
    return;
  }
  FAIL() << "nothing is said of " << drive.generic;
}

}  // namespace
}  // namespace towpath::guest
