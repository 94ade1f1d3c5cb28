#include <gtest/gtest.h>

#include <towpath/memory/dlpack.h>

namespace towpath::memory {
namespace {

int given_back = 0;

class DlpackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    given_back = 0;
    array_.tensor = {.data = bytes_.data(),
                     .device_type = 1,
                     .device_id = 0,
                     .dimensions = 2,
                     .type_code = 2,
                     .type_bits = 16,
                     .type_lanes = 1,
                     .shape = shape_.data(),
                     .strides = nullptr,
                     .byte_offset = 8};
    array_.deleter = [](DlManagedTensor*) { ++given_back; };
  }
  Code refused() {
    const auto region = take_dlpack(&array_);
    EXPECT_FALSE(region.ok());
    EXPECT_EQ(given_back, 0) << "on failure it stays the caller's";
    return region.code();
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(64);
  std::vector<std::int64_t> shape_ = {3, 4};
  std::vector<std::int64_t> strides_ = {8, 1};
  DlManagedTensor array_;
};

TEST_F(DlpackTest, an_array_is_a_region_until_it_is_let_go) {
  {
    const auto region = take_dlpack(&array_);
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    EXPECT_EQ((*region)->descriptor().address, address_of(bytes_.data()) + 8);
    EXPECT_EQ((*region)->size(), 24u);
    EXPECT_EQ((*region)->kind(), MemoryKind::system);
    EXPECT_TRUE((*region)->contiguous());
    EXPECT_EQ(given_back, 0);
  }
  EXPECT_EQ(given_back, 1);
}

TEST_F(DlpackTest, one_without_a_deleter_is_just_let_go) {
  array_.deleter = nullptr;
  EXPECT_TRUE(take_dlpack(&array_).ok());
}

TEST_F(DlpackTest, strides_lanes_and_devices_are_understood) {
  array_.tensor.strides = strides_.data();
  EXPECT_EQ(take_dlpack(&array_).value()->size(), (2 * 8 + 3 + 1) * 2u);
  array_.tensor.type_lanes = 2;
  EXPECT_EQ(take_dlpack(&array_).value()->shape().element_bytes, 4u);
  array_.tensor.device_type = 2;
  array_.tensor.device_id = 3;
  EXPECT_EQ(take_dlpack(&array_).value()->descriptor().device_id, 3u);
  EXPECT_EQ(take_dlpack(&array_).value()->kind(), MemoryKind::device);
  array_.tensor.device_type = 3;
  EXPECT_EQ(take_dlpack(&array_).value()->kind(), MemoryKind::pinned);
}

TEST_F(DlpackTest, what_cannot_be_taken_stays_the_callers) {
  EXPECT_EQ(take_dlpack(nullptr).code(), Code::invalid_argument);
  array_.tensor.device_type = 4;  // OpenCL
  EXPECT_EQ(refused(), Code::unsupported);
  array_.tensor.device_type = 1;
  array_.tensor.type_bits = 4;
  EXPECT_EQ(refused(), Code::invalid_argument);
  array_.tensor.type_bits = 16;
  array_.tensor.dimensions = 1000;
  EXPECT_EQ(refused(), Code::invalid_argument);
  array_.tensor.dimensions = -1;
  EXPECT_EQ(refused(), Code::invalid_argument);
  array_.tensor.dimensions = 2;
  shape_[0] = 0;
  EXPECT_EQ(refused(), Code::invalid_argument);
  shape_[0] = 3;
  array_.tensor.byte_offset = UINT64_MAX;
  EXPECT_EQ(refused(), Code::out_of_range);
  array_.tensor.byte_offset = 0;
  array_.tensor.shape = nullptr;
  EXPECT_EQ(refused(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::memory
