// Layouts in memory of devices, over each driver: host memory, the CUDA table over the tests'
// library, and this machine's GPU if it has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/device/testing/real_gpu.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/sys/clock.h>

namespace towpath::layout {
namespace {

using memory::testing::EventLog;
using memory::testing::RecordingRegistrar;
using ::testing::HasSubstr;

class BuilderDevicesTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "host") {
      driver_ = std::make_unique<device::HostDriver>(clock_);
    } else {
      const bool real = GetParam() == "cuda";
      if (const auto why = device::testing::why_no_gpu(); real && !why.empty()) GTEST_SKIP() << why;
      auto cuda = real ? device::CudaDriver::open()
                       : device::CudaDriver::open({.library = device::testing::FakeCuda::path()});
      ASSERT_TRUE(cuda.ok()) << cuda.status().to_string();
      driver_ = *std::move(cuda);
    }
    device_ = driver_->open(0).value();
    pinned_ = memory::PinnedAllocator::create(device_, clock_).value();
  }

  auto start() {
    return PhysicalLayoutBuilder(agent_).with_config(
        {.num_blocks = 2, .num_layers = 3, .outer_dim = 2, .page_size = 4, .inner_dim = 8});
  }
  static void for_each_page(const auto& visit) {
    for (std::uint64_t block = 0; block < 2; ++block)
      for (std::uint64_t layer = 0; layer < 3; ++layer)
        for (std::uint64_t outer = 0; outer < 2; ++outer) visit(PageIndex{block, layer, outer});
  }

  const sys::SystemClock clock_;
  EventLog log_;
  RecordingRegistrar agent_{
      log_, {.name = "builder-test", .kinds = {kMemoryKinds.begin(), kMemoryKinds.end()}}};
  std::unique_ptr<device::Driver> driver_;
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<memory::PinnedAllocator> pinned_;
};

TEST_P(BuilderDevicesTest, pages_go_from_pinned_to_device_memory_of_another_order_and_back) {
  const auto pinned = start().fully_contiguous().allocate_pinned(*pinned_).build().value();
  const auto far =
      start().layer_separate(BlockDimension::second).allocate_device(device_).build().value();
  const auto back = start().fully_contiguous().allocate_pinned(*pinned_).build().value();
  EXPECT_EQ(pinned.location(), (Location{.kind = MemoryKind::pinned, .device_id = 0}));
  EXPECT_EQ(far.location(), (Location{.kind = MemoryKind::device, .device_id = 0}));
  EXPECT_EQ(agent_.registered(), 3u);

  unsigned char mark = 0;
  for_each_page([&](PageIndex page) {
    const ByteSpan bytes = pinned.bytes(page).value();
    std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(++mark));
  });
  const auto stream = device_->create_stream().value();
  const auto copies = [&](const PhysicalLayout& target, const PhysicalLayout& source) {
    std::vector<device::Copy> all;
    for_each_page([&](PageIndex page) {
      const Extent to = target.memory_region(page).value();
      const Extent from = source.memory_region(page).value();
      all.push_back({.target = to.address, .source = from.address, .length = from.size});
    });
    return all;
  };
  ASSERT_TRUE(stream->copy_batch(copies(far, pinned)).ok());
  ASSERT_TRUE(stream->copy_batch(copies(back, far)).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  mark = 0;
  for_each_page([&](PageIndex page) {
    EXPECT_THAT(back.bytes(page).value(), ::testing::Each(static_cast<std::byte>(++mark)));
  });
}

TEST_P(BuilderDevicesTest, this_process_cannot_touch_pages_of_a_device) {
  const auto far = start().fully_contiguous().allocate_device(device_).build().value();
  EXPECT_EQ(far.bytes({0, 0, 0}).code(), Code::unsupported);
  EXPECT_EQ(driver_->facts_of(far.memory_region({1, 2, 1})->address)->kind, MemoryKind::device);
}

TEST_P(BuilderDevicesTest, a_device_that_is_full_is_reported_with_its_ordinal_and_cause) {
  LayoutConfig huge{
      .num_blocks = 1 << 20, .num_layers = 64, .outer_dim = 2, .page_size = 64, .inner_dim = 65536};
  const auto failed = PhysicalLayoutBuilder(agent_)
                          .with_config(huge)
                          .fully_contiguous()
                          .allocate_device(device_)
                          .build();
  EXPECT_EQ(failed.code(), Code::exhausted);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("on device 0 for a layout"));
  EXPECT_FALSE(failed.status().cause().ok());
  EXPECT_EQ(agent_.registered(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Drivers, BuilderDevicesTest,
                         ::testing::Values("host", "fake_cuda", "cuda"),
                         [](const auto& candidate) { return candidate.param; });

}  // namespace
}  // namespace towpath::layout
