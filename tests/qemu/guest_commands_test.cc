// The kernel's answers to commands, good and bad: what the encoder is for, and what it keeps out.
#include <cerrno>

#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <towpath/backends/nvme/identify.h>
#include <towpath/backends/nvme/maintenance.h>
#include <towpath/backends/nvme/nvme_status.h>
#include <towpath/sys/uring.h>

#include "fabrics.h"
#include "guest_drives.h"

namespace towpath::guest {
namespace {

using namespace backends::nvme;

class GuestCommands : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!has_drive("PLAIN512")) GTEST_SKIP() << "this machine has other drives";
    if (is_over_fabrics(GetParam())) {
      if (!has_fabrics()) GTEST_SKIP() << kNoFabrics;
      ASSERT_NO_FATAL_FAILURE(connect_fabrics(GetParam()));
    }
    drive = drive_called(GetParam());
    auto opened = kernel_driver()->open(drive.generic, Access::read_write);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    target = std::move(*opened);
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t most = target->info().max_transfer_bytes + kPage;
    buffer = std::move(*sys::Mapping::anonymous(std::max(kMiB, most)));
  }
  BlockIo blocks(std::uint64_t lba, std::uint64_t count) const {
    return {.namespace_id = target->info().id,
            .lba = lba,
            .blocks = count,
            .block_bytes = 512,
            .address = address_of(buffer.data())};
  }
  /// The kernel's answer to a command as it is.
  std::int32_t send(const Command& command, unsigned operation = NVME_URING_CMD_IO,
                    const sys::RingOptions& options = {
                        .entries = 4, .sqe128 = true, .cqe32 = true}) const {
    auto ring = sys::Ring::open(options);
    EXPECT_TRUE(ring.ok()) << ring.status().to_string();
    sys::RingCommand request{.file = {target->fd(), false}, .operation = operation};
    std::ranges::copy(command.bytes, request.area.begin());
    EXPECT_TRUE(ring->command(1, request).ok());
    EXPECT_TRUE(
        ring->submit_and_wait({.completions = 1, .timeout = std::chrono::seconds(60)}).ok());
    sys::Completion done[1];
    EXPECT_EQ(ring->poll(done), 1U);
    return done[0].result;
  }

  Drive drive;
  std::shared_ptr<Namespace> target;
  sys::Mapping buffer;
};

TEST_P(GuestCommands, identify_reports_what_the_machine_was_built_with) {
  const NamespaceInfo& info = target->info();
  EXPECT_EQ(info.block_bytes, 512U);
  EXPECT_EQ(info.size_bytes(), 64U << 20U);
  const bool is_remote = is_over_fabrics(GetParam());
  EXPECT_NE(info.model.find(is_remote ? "Linux" : "QEMU"), std::string::npos) << info.model;
  EXPECT_TRUE(info.deallocates);
  EXPECT_TRUE(info.has_write_cache);
  if (!is_remote) {
    EXPECT_LE(info.max_transfer_bytes, 512U << 10U);
  }
  EXPECT_GE(info.max_transfer_bytes, 256U << 10U) << "less than the kernel's pages allow";
}

TEST_P(GuestCommands, blocks_written_are_blocks_read_and_the_block_layer_agrees) {
  const Bytes written = random_bytes(1, 65536);
  std::ranges::copy(written, buffer.data());
  ASSERT_EQ(send(*encode_write(blocks(100, 128))), 0);
  EXPECT_EQ(read_block_device(drive.block, 100 * 512, 65536), written);
  std::ranges::fill(buffer.bytes(), std::byte{0});
  ASSERT_EQ(send(*encode_read(blocks(100, 128))), 0);
  EXPECT_TRUE(std::ranges::equal(buffer.bytes().first(65536), written));
}

TEST_P(GuestCommands, ring_of_64_byte_submissions_cannot_carry_them) {
  auto ring = sys::Ring::open({.entries = 4});
  ASSERT_TRUE(ring.ok());
  EXPECT_EQ(ring->command(1, {.file = {target->fd(), false}}).code(), Code::unsupported);
}

TEST_P(GuestCommands, short_completions_are_refused_by_the_kernel) {
  EXPECT_EQ(send(*encode_read(blocks(0, 1)), NVME_URING_CMD_IO, {.entries = 4, .sqe128 = true}),
            -EOPNOTSUPP);
}

TEST_P(GuestCommands, unknown_operation_is_refused) {
  EXPECT_EQ(send(*encode_read(blocks(0, 1)), 0), -ENOTTY);
}

TEST_P(GuestCommands, block_beyond_the_end_is_the_drives_refusal) {
  const std::int32_t result = send(*encode_read(blocks(target->info().blocks, 1)));
  ASSERT_GT(result, 0);
  const NvmeStatus status{static_cast<std::uint16_t>(result)};
  // Linux as a target has one word for all that its own drive refuses.
  EXPECT_EQ(name_of(status), is_over_fabrics(GetParam()) ? "Internal Error" : "LBA Out of Range");
  EXPECT_TRUE(status.do_not_retry());
}

TEST_P(GuestCommands, foreign_namespace_is_refused) {
  BlockIo io = blocks(0, 1);
  io.namespace_id = 77;
  EXPECT_EQ(send(*encode_read(io)), -EINVAL);
}

TEST_P(GuestCommands, flags_are_refused) {
  Command command = *encode_read(blocks(0, 1));
  command.bytes[1] = std::byte{1};
  EXPECT_EQ(send(command), -EINVAL);
}

TEST_P(GuestCommands, address_that_is_not_mapped_is_refused) {
  BlockIo io = blocks(0, 8);
  io.address = 4096;
  EXPECT_EQ(send(*encode_read(io)), -EFAULT);
}

TEST_P(GuestCommands, more_than_the_largest_transfer_is_refused_and_not_split) {
  const std::uint64_t most = target->info().max_transfer_bytes;
  if (std::string_view(GetParam()) == "TCP") GTEST_SKIP() << "no limit is reported over TCP";
  EXPECT_LT(most, kMiB);
  EXPECT_EQ(send(*encode_read(blocks(0, 2048))), -EINVAL) << "1 MiB";
}

TEST_P(GuestCommands, unknown_opcode_is_the_drives_refusal) {
  Command command = encode_flush(target->info().id);
  command.bytes[0] = std::byte{0x7F};
  const std::int32_t result = send(command);
  ASSERT_GT(result, 0);
  EXPECT_EQ(name_of(NvmeStatus{static_cast<std::uint16_t>(result)}), "Invalid Command Opcode");
}

TEST_P(GuestCommands, largest_transfer_that_is_reported_is_taken_from_scattered_pages) {
  // Pages in an order that no two neighbours follow each other: each is a segment of its own.
  const std::uint64_t most = target->info().max_transfer_bytes;
  for (std::uint64_t at = 0; at < buffer.size(); at += 8192) buffer.data()[at] = std::byte{1};
  for (std::uint64_t at = 4096; at < buffer.size(); at += 8192) buffer.data()[at] = std::byte{1};
  BlockIo io = blocks(0, most / 512);
  io.address += 4;  // one page more
  EXPECT_EQ(send(*encode_write(io)), 0) << most;
}

TEST_P(GuestCommands, flush_and_deallocation_go_through) {
  const Bytes written = random_bytes(3, 32 * 512);
  std::ranges::copy(written, buffer.data());
  ASSERT_EQ(send(*encode_write(blocks(2048, 32))), 0);
  EXPECT_TRUE(flush(*target).ok());
  const BlockRange ranges[] = {{.lba = 2048, .blocks = 8}, {.lba = 2064, .blocks = 8}};
  const Status gone = deallocate(*target, ranges);
  ASSERT_TRUE(gone.ok()) << gone.to_string();
  ASSERT_EQ(send(*encode_read(blocks(2048, 32))), 0);
  const ByteSpan now = buffer.bytes();
  const Bytes zeros(8 * 512);
  EXPECT_TRUE(std::ranges::equal(now.subspan(0, 4096), zeros));
  EXPECT_TRUE(std::ranges::equal(now.subspan(4096, 4096), std::span(written).subspan(4096, 4096)));
  EXPECT_TRUE(std::ranges::equal(now.subspan(8192, 4096), zeros));
}

TEST_P(GuestCommands, identify_goes_by_the_ring_too) {
  const sys::Fd controller(::open(cat("/dev/", drive.controller).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(controller);
  auto ring = sys::Ring::open({.entries = 4, .sqe128 = true, .cqe32 = true});
  sys::RingCommand request{.file = {controller.get(), false}, .operation = NVME_URING_CMD_ADMIN};
  const Command command = encode_identify(Identify::controller, 0, address_of(buffer.data()));
  std::ranges::copy(command.bytes, request.area.begin());
  ASSERT_TRUE(ring->command(1, request).ok());
  ASSERT_TRUE(ring->submit_and_wait({.completions = 1, .timeout = std::chrono::seconds(60)}).ok());
  sys::Completion done[1];
  ASSERT_EQ(ring->poll(done), 1U);
  EXPECT_EQ(done[0].result, 0);
  const auto found = decode_controller(buffer.bytes().first(kIdentifyBytes));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->serial, GetParam());
}

// A drive of this machine, and one over a network, in two ways.
INSTANTIATE_TEST_SUITE_P(Drives, GuestCommands, ::testing::Values("PLAIN512", "LOOP", "TCP"),
                         [](const auto& serial) { return std::string(serial.param); });

}  // namespace
}  // namespace towpath::guest
