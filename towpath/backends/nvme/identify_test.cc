#include <gtest/gtest.h>

#include <towpath/backends/nvme/identify.h>
#include <towpath/backends/nvme/testing/identify_pages.h>

namespace towpath::backends::nvme {
namespace {

using testing::controller_page;
using testing::namespace_page;

TEST(IdentifyTest, controller_says_what_it_is_and_takes) {
  const auto found = decode_controller(controller_page(7).bytes());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->model, "A drive");
  EXPECT_EQ(found->serial, "S-1");
  EXPECT_EQ(found->firmware, "1.0");
  EXPECT_EQ(found->max_transfer_bytes(), 512U << 10U);
  EXPECT_TRUE(found->has_write_cache);
  EXPECT_TRUE(found->deallocates);
}

TEST(IdentifyTest, no_mdts_is_no_limit_and_a_mad_one_is_corrupt) {
  EXPECT_EQ(decode_controller(controller_page(0).bytes())->max_transfer_bytes(), UINT64_MAX);
  EXPECT_EQ(decode_controller(controller_page(32).bytes())->max_transfer_bytes(), 1ULL << 44U);
  EXPECT_EQ(decode_controller(controller_page(33).bytes()).code(), Code::corrupt);
}

TEST(IdentifyTest, names_of_a_drive_are_made_printable) {
  auto page = controller_page(0);
  page.put(24, 0x0A1B07, 3);
  EXPECT_EQ(decode_controller(page.bytes())->model.find('\x1B'), std::string::npos);
}

TEST(IdentifyTest, namespace_has_blocks_of_its_format) {
  for (const unsigned shift : {9U, 12U, 16U}) {
    const auto found = decode_namespace(namespace_page(1000, shift).bytes());
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_EQ(found->blocks, 1000U);
    EXPECT_EQ(found->block_bytes, 1U << shift);
  }
}

TEST(IdentifyTest, format_beyond_the_first_sixteen_has_its_upper_bits_apart) {
  const auto found = decode_namespace(namespace_page(5, 12, 35).bytes());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->block_bytes, 4096U);
}

TEST(IdentifyTest, namespace_that_cannot_be_used_is_refused) {
  EXPECT_EQ(decode_namespace(namespace_page(0, 9).bytes()).code(), Code::not_found);
  EXPECT_EQ(decode_namespace(namespace_page(1, 8).bytes()).code(), Code::unsupported);
  EXPECT_EQ(decode_namespace(namespace_page(1, 17).bytes()).code(), Code::unsupported);
  EXPECT_EQ(decode_namespace(namespace_page(1, 9).put(128, 8, 2).bytes()).code(), Code::unsupported)
      << "8 bytes of metadata with each block";
  EXPECT_EQ(decode_namespace(namespace_page(1, 9).put(26, 3, 1).bytes()).code(), Code::corrupt)
      << "format 3 of 1";
  EXPECT_EQ(decode_namespace(namespace_page(1, 9).put(25, 200, 1).bytes()).code(), Code::corrupt);
  EXPECT_EQ(decode_namespace(namespace_page(UINT64_MAX, 9).bytes()).code(), Code::corrupt);
}

TEST(IdentifyTest, page_of_another_size_is_corrupt) {
  const Bytes page(4095);
  EXPECT_EQ(decode_controller(page).code(), Code::corrupt);
  EXPECT_EQ(decode_namespace(page).code(), Code::corrupt);
}

}  // namespace
}  // namespace towpath::backends::nvme
