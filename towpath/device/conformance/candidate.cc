#include <towpath/core/format.h>
#include <towpath/device/conformance/candidate.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/device/testing/real_gpu.h>
#include <towpath/sys/clock.h>

namespace towpath::device::conformance {

std::vector<std::string> candidates() { return {"host", "fake_cuda", "cuda"}; }

Result<std::unique_ptr<Driver>> open_candidate(const std::string& name) {
  static const sys::SystemClock kClock;
  if (name == "host") return std::make_unique<HostDriver>(kClock, HostDriverOptions{.devices = 2});
  if (name != "cuda" && name != "fake_cuda") return error(Code::not_found, "no such driver");
  const bool real = name == "cuda";
  TOWPATH_TRY(auto driver,
              CudaDriver::open(real ? CudaDriverOptions{}
                                    : CudaDriverOptions{.library = testing::FakeCuda::path()}));
  return std::unique_ptr<Driver>(std::move(driver));
}

namespace {

/// What a driver loads at its first use, for which it may wait for all that the device has to do:
/// the cases hold a stream up by themselves.
void use_once(Device& device) {
  const auto memory = device.allocate(4096).value();
  const auto stream = device.create_stream().value();
  EXPECT_TRUE(stream->fill({.address = memory.address(), .length = 4096}).ok());
  EXPECT_TRUE(stream->copy({memory.address() + 2048, memory.address(), 2048}).ok());
  EXPECT_TRUE(stream->run([] {}).ok());
  EXPECT_TRUE(stream->synchronize().ok());
}

}  // namespace

void DeviceConformance::SetUp() {
  if (const auto why = testing::why_no_gpu(); GetParam() == "cuda" && !why.empty())
    GTEST_SKIP() << why;
  auto driver = open_candidate(GetParam());
  ASSERT_TRUE(driver.ok()) << driver.status().to_string();
  driver_ = *std::move(driver);
  auto device = driver_->open(0);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  device_ = *std::move(device);
  use_once(*device_);
}

void DeviceConformance::TearDown() {
  device_.reset();
  if (GetParam() != "fake_cuda") return;
  const testing::FakeCuda fake;
  EXPECT_EQ(fake.current_depth(), 0) << "a context was left current";
  EXPECT_EQ(fake.capture_mode(), 0) << "the thread was left in another mode";
  EXPECT_EQ(fake.retained(), 0) << "the primary context was not released";
  EXPECT_STREQ(fake.complaints(), "");
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceConformance, ::testing::ValuesIn(candidates()),
                         [](const auto& candidate) { return candidate.param; });

}  // namespace towpath::device::conformance
