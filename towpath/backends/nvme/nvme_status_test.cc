#include <gtest/gtest.h>

#include <towpath/backends/nvme/nvme_status.h>

namespace towpath::backends::nvme {
namespace {

TEST(NvmeStatusTest, bits_are_taken_apart) {
  constexpr NvmeStatus kStatus{0x4281};
  EXPECT_EQ(kStatus.type(), 2U);
  EXPECT_EQ(kStatus.code(), 0x81U);
  EXPECT_TRUE(kStatus.do_not_retry());
  EXPECT_EQ(to_string(kStatus),
            "Unrecovered Read Error (type 2 media and data integrity, code 0x81, do not retry)");
}

TEST(NvmeStatusTest, becomes_what_a_program_acts_on) {
  const auto code_of = [](std::uint16_t bits) { return to_status({bits}, "the read").code(); };
  EXPECT_EQ(code_of(0x4080), Code::out_of_range);
  EXPECT_EQ(code_of(0x0081), Code::exhausted);
  EXPECT_EQ(code_of(0x4002), Code::unsupported);
  EXPECT_EQ(code_of(0x0281), Code::io_error);
  EXPECT_EQ(code_of(0x0282), Code::corrupt);
  EXPECT_EQ(code_of(0x0286), Code::denied);
  EXPECT_EQ(code_of(0x0182), Code::denied);
  EXPECT_EQ(code_of(0x000B), Code::not_found);
  EXPECT_EQ(code_of(0x0371), Code::unavailable);
  EXPECT_EQ(code_of(0x07FF), Code::io_error) << "vendor specific";
  EXPECT_EQ(to_status({0x4080}, "the read of 8 blocks").message(),
            "the read of 8 blocks: LBA Out of Range (type 0 generic, code 0x80, do not retry)");
}

TEST(NvmeStatusTest, only_what_passes_is_tried_again) {
  EXPECT_TRUE(is_worth_a_retry({0x0007})) << "aborted";
  EXPECT_TRUE(is_worth_a_retry({0x0082})) << "not ready";
  EXPECT_TRUE(is_worth_a_retry({0x0371})) << "aborted by the host";
  EXPECT_FALSE(is_worth_a_retry({0x4007})) << "the drive forbids it";
  EXPECT_FALSE(is_worth_a_retry({0x0281})) << "the medium is what it is";
  EXPECT_FALSE(is_worth_a_retry({0x0080})) << "so is the command";
  EXPECT_FALSE(is_worth_a_retry({0x07FF})) << "nobody knows";
}

}  // namespace
}  // namespace towpath::backends::nvme
