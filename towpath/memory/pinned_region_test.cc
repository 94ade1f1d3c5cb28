#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/measured_choice.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/object_region.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

#ifdef TOWPATH_ASAN
// Of sanitizer/lsan_interface.h.
extern "C" void __lsan_disable();  // NOLINT
extern "C" void __lsan_enable();   // NOLINT
#endif

namespace towpath::memory {
namespace {

using ::testing::HasSubstr;

/// What is leaked in here is so on purpose.
class LeakAllowed {
 public:
#ifdef TOWPATH_ASAN
  LeakAllowed() { __lsan_disable(); }
  ~LeakAllowed() { __lsan_enable(); }
#else
  LeakAllowed() {}  // not defaulted: it would be an unused variable
#endif
};

class PinnedRegionTest : public ::testing::Test {
 protected:
  std::unique_ptr<device::CudaDriver> open_fake() {
    return device::CudaDriver::open({.library = device::testing::FakeCuda::path()}).value();
  }

  sys::SystemClock clock_;
  device::HostDriver driver_{clock_};
  const std::shared_ptr<device::Device> device_ = driver_.open(0).value();
  telemetry::CollectingSink sink_;
  const telemetry::Log log_{sink_, clock_, "memory"};
};

TEST_F(PinnedRegionTest, the_drivers_own_memory_is_the_hosts_and_known_as_pinned) {
  const auto region = PinnedRegion::allocate(device_, 5000).value();
  EXPECT_EQ(region->kind(), MemoryKind::pinned);
  EXPECT_EQ(region->bytes().size(), 5000u);
  std::memset(region->bytes().data(), 7, 5000);
  EXPECT_EQ(driver_.facts_of(region->descriptor().address + 4999)->kind, MemoryKind::pinned);
  EXPECT_EQ(region->base(), nullptr);
}

TEST_F(PinnedRegionTest, any_host_memory_can_be_pinned_and_is_kept_alive_meanwhile) {
  auto base = SystemRegion::allocate(8192).value();
  const std::uint64_t address = base->descriptor().address;
  const std::weak_ptr<SystemRegion> watched = base;
  auto region = PinnedRegion::pin(std::move(base), device_).value();
  EXPECT_EQ(region->descriptor().address, address);
  EXPECT_EQ(region->kind(), MemoryKind::pinned);
  EXPECT_NE(region->device_address(), 0u);
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(driver_.facts_of(address)->kind, MemoryKind::pinned);
  region.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(driver_.facts_of(address)->kind, MemoryKind::system);
}

TEST_F(PinnedRegionTest, memory_is_pinned_once_and_can_be_again) {
  const auto base = SystemRegion::allocate(8192).value();
  auto region = PinnedRegion::pin(base, device_);
  ASSERT_TRUE(region.ok());
  const Status twice = PinnedRegion::pin(base, device_).status();
  EXPECT_EQ(twice.code(), Code::already_exists);
  EXPECT_FALSE(twice.cause().ok());
  region->reset();
  EXPECT_TRUE(PinnedRegion::pin(base, device_).ok());
}

TEST_F(PinnedRegionTest, what_cannot_be_pinned_is_refused) {
  const auto base = SystemRegion::allocate(4096).value();
  EXPECT_EQ(PinnedRegion::pin(nullptr, device_).code(), Code::invalid_argument);
  EXPECT_EQ(PinnedRegion::pin(base, nullptr).code(), Code::invalid_argument);
  EXPECT_EQ(PinnedRegion::allocate(nullptr, 1).code(), Code::invalid_argument);
  EXPECT_EQ(PinnedRegion::allocate(device_, 0).code(), Code::invalid_argument);
  const auto object = ObjectRegion::create({.key = "k", .size_bytes = 1}).value();
  EXPECT_EQ(PinnedRegion::pin(object, device_).code(), Code::unsupported);
}

TEST_F(PinnedRegionTest, memory_that_the_driver_does_not_let_go_is_never_unmapped) {
  const LeakAllowed leak;
  const auto driver = open_fake();
  const device::testing::FakeCuda fake;
  auto base = SystemRegion::allocate(4096).value();
  const ByteSpan bytes = base->bytes();
  auto region = PinnedRegion::pin(std::move(base), driver->open(0).value(), log_).value();
  fake.fail_next("cuMemHostUnregister", device::cuda::kHostMemoryNotRegistered);
  region.reset();
  bytes[0] = std::byte{1};  // still mapped: else this dies
  EXPECT_EQ(sink_.count_of("cannot be given back"), 1u);
}

TEST_F(PinnedRegionTest, a_failure_to_pin_lets_the_memory_go) {
  const auto driver = open_fake();
  const auto device = driver->open(0).value();
  auto base = SystemRegion::allocate(4096).value();
  const std::weak_ptr<SystemRegion> watched = base;
  device::testing::FakeCuda().fail_next("cuMemHostRegister_v2", device::cuda::kOperatingSystem);
  const Status status = PinnedRegion::pin(std::move(base), device).status();
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_THAT(std::string(status.hint()), HasSubstr("ulimit -l"));
  EXPECT_TRUE(watched.expired());
}

// How it is got
// --------------------------------------------------------------------------------------

class PinnedAllocatorTest : public PinnedRegionTest {
 protected:
  static constexpr auto kDriver = static_cast<std::size_t>(PinMethod::driver);
  static constexpr auto kMapped = static_cast<std::size_t>(PinMethod::mapped);
  PinnedOptions options() { return {.trial_bytes = 1 << 20, .log = log_}; }
};

TEST_F(PinnedAllocatorTest, a_small_one_is_not_worth_a_measurement) {
  const auto allocator = PinnedAllocator::create(device_, clock_, options()).value();
  const auto region = allocator->allocate(4096).value();
  EXPECT_EQ(region->base(), nullptr) << "the driver's";
  EXPECT_FALSE(allocator->measurement());
}

TEST_F(PinnedAllocatorTest, a_large_one_measures_both_ways_once_and_says_so) {
  const auto allocator = PinnedAllocator::create(device_, clock_, options()).value();
  ASSERT_TRUE(allocator->allocate(2 << 20).ok());
  ASSERT_TRUE(allocator->allocate(2 << 20).ok());
  const auto measured = allocator->measurement();
  ASSERT_TRUE(measured && measured->best(kDriver) && measured->best(kMapped));
  const auto region = allocator->allocate(2 << 20).value();
  EXPECT_EQ(region->base() != nullptr, measured->fastest() == kMapped) << "the faster one is taken";
  EXPECT_EQ(sink_.count_of("how to get pinned memory was measured"), 1u);
}

TEST_F(PinnedAllocatorTest, a_way_that_fails_in_its_trial_is_not_chosen) {
  const auto driver = open_fake();
  const auto allocator =
      PinnedAllocator::create(driver->open(0).value(), clock_, options()).value();
  device::testing::FakeCuda().fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  const auto region = allocator->allocate(2 << 20).value();
  EXPECT_EQ(allocator->measurement()->fastest(), kMapped);
  EXPECT_TRUE(allocator->measurement()->has_failed(kDriver));
  EXPECT_NE(region->base(), nullptr);
  EXPECT_EQ(sink_.count_of("failed in its trial"), 1u);
}

TEST_F(PinnedAllocatorTest, when_one_way_fails_the_other_is_tried_and_both_causes_are_kept) {
  const auto driver = open_fake();
  const device::testing::FakeCuda fake;
  const auto allocator =
      PinnedAllocator::create(driver->open(0).value(), clock_, options()).value();
  fake.fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  EXPECT_TRUE(allocator->allocate(4096).ok());
  EXPECT_EQ(sink_.count_of("trying the other way"), 1u);
  fake.fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  fake.fail_next("cuMemHostRegister_v2", device::cuda::kOperatingSystem);
  const Status status = allocator->allocate(4096).status();
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of memory"));
  EXPECT_THAT(status.to_string(), HasSubstr("cannot pin"));
}

TEST_F(PinnedAllocatorTest, a_way_that_was_asked_for_is_taken_and_no_other) {
  PinnedOptions mapped = options();
  mapped.method = PinMethod::mapped;
  mapped.node = 0;
  const auto allocator = PinnedAllocator::create(device_, clock_, mapped).value();
  const auto region = allocator->allocate(3 << 20).value();
  const auto* const base = dynamic_cast<const SystemRegion*>(region->base().get());
  ASSERT_NE(base, nullptr);
  EXPECT_GE(base->placement().touch_threads, 1u);
  EXPECT_EQ(region->size(), 3u << 20);
  EXPECT_FALSE(allocator->measurement());
  const auto driver = open_fake();
  mapped.method = PinMethod::driver;
  const auto other = PinnedAllocator::create(driver->open(0).value(), clock_, mapped).value();
  device::testing::FakeCuda().fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  EXPECT_EQ(other->allocate(4096).code(), Code::exhausted);
}

TEST_F(PinnedAllocatorTest, what_contradicts_itself_is_refused) {
  EXPECT_EQ(PinnedAllocator::create(nullptr, clock_).code(), Code::invalid_argument);
  PinnedOptions wrong = options();
  wrong.method = PinMethod::driver;
  wrong.huge_pages = sys::HugePages::required;
  EXPECT_EQ(PinnedAllocator::create(device_, clock_, wrong).code(), Code::invalid_argument);
  EXPECT_EQ(PinnedAllocator::create(device_, clock_).value()->allocate(0).code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::memory
