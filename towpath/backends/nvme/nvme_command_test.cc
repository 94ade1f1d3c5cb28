#include <cstring>

#include <gtest/gtest.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <towpath/backends/nvme/nvme_command.h>

namespace towpath::backends::nvme {
namespace {

/// The bytes of a command, reported as places that are not zero.
Command golden(std::initializer_list<std::pair<std::size_t, std::initializer_list<int>>> places) {
  Command command;
  for (const auto& [at, values] : places) {
    std::size_t place = at;
    for (const int value : values) command.bytes.at(place++) = static_cast<std::byte>(value);
  }
  return command;
}

/// The kernel's own structure, read by the compiler's idea of its layout and not by ours.
nvme_uring_cmd as_the_kernel_reads(const Command& command) {
  nvme_uring_cmd read;
  static_assert(sizeof read == sizeof command.bytes);
  std::memcpy(&read, command.bytes.data(), sizeof read);
  return read;
}

constexpr BlockIo kIo{.namespace_id = 0x0A0B0C0D,
                      .lba = 0x1122334455667788,
                      .blocks = 8,
                      .block_bytes = 4096,
                      .address = 0xAABBCCDDEEFF0010};

TEST(NvmeCommandTest, read_is_these_72_bytes) {
  const auto command = encode_read(kIo);
  ASSERT_TRUE(command.ok()) << command.status().to_string();
  EXPECT_EQ(*command, golden({{0, {0x02}},
                              {4, {0x0D, 0x0C, 0x0B, 0x0A}},
                              {24, {0x10, 0x00, 0xFF, 0xEE, 0xDD, 0xCC, 0xBB, 0xAA}},
                              {36, {0x00, 0x80}},
                              {40, {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}},
                              {48, {0x07}}}));
}

TEST(NvmeCommandTest, write_differs_in_its_opcode_and_in_what_it_forces) {
  auto io = kIo;
  Command expected = *encode_read(io);
  expected.bytes[0] = std::byte{0x01};
  EXPECT_EQ(*encode_write(io), expected);
  io.force_unit_access = true;
  expected.bytes[51] = std::byte{0x40};  // bit 30 of the word at 48
  EXPECT_EQ(*encode_write(io), expected);
}

TEST(NvmeCommandTest, flush_has_a_namespace_and_nothing_else) {
  EXPECT_EQ(encode_flush(1), golden({{4, {1}}}));
}

TEST(NvmeCommandTest, deallocation_has_its_ranges_beside_it) {
  alignas(8) std::array<std::byte, 32> payload{};
  encode_ranges(std::array{BlockRange{.lba = 0x0102030405060708, .blocks = 0x11121314},
                           BlockRange{.lba = 9, .blocks = 1}},
                payload);
  const std::array expected{0, 0, 0, 0, 0x14, 0x13, 0x12, 0x11, 8, 7, 6, 5, 4, 3, 2, 1,
                            0, 0, 0, 0, 1,    0,    0,    0,    9, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < payload.size(); ++i)
    EXPECT_EQ(payload[i], static_cast<std::byte>(expected[i])) << i;
  const auto command = encode_deallocate(1, payload);
  ASSERT_TRUE(command.ok());
  const nvme_uring_cmd read = as_the_kernel_reads(*command);
  EXPECT_EQ(read.opcode, 0x09);
  EXPECT_EQ(read.addr, address_of(payload.data()));
  EXPECT_EQ(read.data_len, 32U);
  EXPECT_EQ(read.cdw10, 1U) << "two ranges, less one";
  EXPECT_EQ(read.cdw11, 4U) << "bit 2: deallocate";
}

TEST(NvmeCommandTest, identify_asks_for_a_page) {
  EXPECT_EQ(encode_identify(Identify::controller, 0, 0x1000),
            golden({{0, {0x06}}, {25, {0x10}}, {37, {0x10}}, {40, {0x01}}}));
  EXPECT_EQ(encode_identify(Identify::name_space, 3, 0x1000),
            golden({{0, {0x06}}, {4, {3}}, {25, {0x10}}, {37, {0x10}}}));
}

TEST(NvmeCommandTest, kernels_header_reads_what_was_meant) {
  const nvme_uring_cmd read = as_the_kernel_reads(*encode_read(kIo));
  EXPECT_EQ(read.opcode, 0x02);
  EXPECT_EQ(read.flags, 0) << "the kernel refuses others";
  EXPECT_EQ(read.nsid, kIo.namespace_id);
  EXPECT_EQ(read.addr, kIo.address);
  EXPECT_EQ(read.data_len, 8U * 4096U);
  EXPECT_EQ(read.cdw10, 0x55667788U);
  EXPECT_EQ(read.cdw11, 0x11223344U);
  EXPECT_EQ(read.cdw12, 7U);
  EXPECT_EQ(read.metadata, 0U);
  EXPECT_EQ(read.metadata_len, 0U);
  EXPECT_EQ(read.cdw2 + read.cdw3 + read.cdw13 + read.cdw14 + read.cdw15 + read.timeout_ms, 0U);
}

TEST(NvmeCommandTest, operations_of_the_ring_are_the_kernels) {
  EXPECT_EQ(NVME_URING_CMD_IO, 0xC0484E80U);
  EXPECT_EQ(NVME_URING_CMD_ADMIN, 0xC0484E82U);
}

TEST(NvmeCommandTest, no_payload_of_64_bytes_is_made) {
  // The 64 bytes that this code began from had the target at 32 to 40, where the kernel has two
  // lengths, and no address at all: the drive then writes to physical address 0 and says "success".
  const nvme_uring_cmd read = as_the_kernel_reads(*encode_read(kIo));
  EXPECT_NE(read.addr, 0U);
  std::uint64_t at_32 = 0;
  std::memcpy(&at_32, encode_read(kIo)->bytes.data() + 32, sizeof at_32);
  EXPECT_NE(at_32, kIo.address);
}

TEST(NvmeCommandTest, zero_blocks_are_an_error_and_not_one_block) {
  auto io = kIo;
  io.blocks = 0;
  EXPECT_EQ(encode_read(io).code(), Code::invalid_argument);
  EXPECT_EQ(encode_write(io).code(), Code::invalid_argument);
}

TEST(NvmeCommandTest, one_block_is_said_as_0_and_the_most_as_65535) {
  auto io = kIo;
  io.blocks = 1;
  EXPECT_EQ(as_the_kernel_reads(*encode_read(io)).cdw12, 0U);
  io.blocks = kMaxBlocks;
  EXPECT_EQ(as_the_kernel_reads(*encode_read(io)).cdw12, 0xFFFFU);
  EXPECT_EQ(as_the_kernel_reads(*encode_read(io)).data_len, 65536U * 4096U);
}

TEST(NvmeCommandTest, what_a_command_cannot_say_is_refused) {
  auto io = kIo;
  io.blocks = kMaxBlocks + 1;  // would reach into the control bits
  EXPECT_EQ(encode_write(io).code(), Code::out_of_range);
  io = kIo;
  io.blocks = kMaxBlocks;
  io.block_bytes = 65536;  // 4 GiB: the length would wrap to 0
  EXPECT_EQ(encode_read(io).code(), Code::out_of_range);
  io = kIo;
  io.lba = UINT64_MAX;
  EXPECT_EQ(encode_read(io).code(), Code::out_of_range);
  io = kIo;
  io.address = 0;  // the kernel would map nothing, and the drive write to address 0
  EXPECT_EQ(encode_read(io).code(), Code::invalid_argument);
  io = kIo;
  io.block_bytes = 0;
  EXPECT_EQ(encode_read(io).code(), Code::invalid_argument);
}

TEST(NvmeCommandTest, deallocation_without_ranges_or_with_too_many_is_refused) {
  const Bytes payload((kMaxRanges + 1) * kRangeBytes);
  const ConstByteSpan bytes(payload);
  EXPECT_EQ(encode_deallocate(1, {}).code(), Code::invalid_argument);
  EXPECT_EQ(encode_deallocate(1, bytes.first(15)).code(), Code::invalid_argument);
  EXPECT_EQ(encode_deallocate(1, bytes).code(), Code::invalid_argument);
  EXPECT_TRUE(encode_deallocate(1, bytes.first(kMaxRanges * kRangeBytes)).ok());
}

}  // namespace
}  // namespace towpath::backends::nvme
