#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/memory/arena.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/memory/view.h>
#include <towpath/sys/clock.h>

namespace towpath::memory {
namespace {

using ::testing::ElementsAre;

class DeviceRegionTest : public ::testing::Test {
 protected:
  sys::SystemClock clock_;
  device::HostDriver driver_{clock_, {.devices = 2, .memory_bytes = 1 << 20}};
  const std::shared_ptr<device::Device> device_ = driver_.open(1).value();
};

TEST_F(DeviceRegionTest, says_where_it_is_and_hands_out_no_bytes) {
  const auto region = DeviceRegion::allocate(device_, 5000).value();
  const RegionDescriptor self = region->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::device);
  EXPECT_EQ(self.device_id, 1u);
  EXPECT_EQ(self.length, 5000u);
  EXPECT_NE(self.address, 0u);
  EXPECT_TRUE(region->bytes().empty());
}

TEST_F(DeviceRegionTest, memory_goes_back_with_the_last_who_holds_it) {
  auto region = DeviceRegion::allocate(device_, 1 << 19).value();
  const auto view = View::create(region, {.offset = 16, .size_bytes = 16}).value();
  region.reset();
  EXPECT_EQ(device_->figures()->free_bytes, 1u << 19);
  EXPECT_EQ(view->descriptor().device_id, 1u);
}

TEST_F(DeviceRegionTest, refusals_keep_their_cause_and_hint) {
  EXPECT_EQ(DeviceRegion::allocate(nullptr, 1).code(), Code::invalid_argument);
  EXPECT_EQ(DeviceRegion::allocate(device_, 0).code(), Code::invalid_argument);
  const Status status = DeviceRegion::allocate(device_, 2 << 20).status();
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_EQ(status.cause().code(), Code::exhausted);
  EXPECT_FALSE(status.hint().empty());
}

TEST_F(DeviceRegionTest, takes_over_device_memory_and_no_other) {
  EXPECT_TRUE(DeviceRegion::adopt(device_->allocate(64).value()).ok());
  EXPECT_EQ(DeviceRegion::adopt(device_->allocate_pinned(64).value()).code(),
            Code::invalid_argument);
  EXPECT_EQ(DeviceRegion::adopt(device::Memory()).code(), Code::invalid_argument);
}

TEST_F(DeviceRegionTest, an_arena_gives_it_out_in_pages_without_touching_it) {
  const auto region = DeviceRegion::allocate(device_, 3 * 4096).value();
  auto arena = Arena::create(region).value();
  const auto first = arena.allocate(5000).value();
  const auto second = arena.allocate(1).value();
  EXPECT_EQ(second.descriptor().kind, MemoryKind::device);
  EXPECT_EQ(second.descriptor().address, region->descriptor().address + 8192);
  EXPECT_EQ(arena.allocate(1).code(), Code::exhausted);
}

TEST_F(DeviceRegionTest, is_deregistered_before_it_is_freed) {
  testing::EventLog log;
  testing::RecordingRegistrar agent(log, {.name = "a", .kinds = {MemoryKind::device}});
  auto region = register_with(DeviceRegion::allocate(device_, 1 << 20).value(), agent);
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  EXPECT_EQ(device_->figures()->free_bytes, 0u);
  auto storage = region->into_storage().value();
  EXPECT_EQ(agent.registered(), 0u);
  EXPECT_EQ(device_->figures()->free_bytes, 0u) << "deregistered, and not freed";
  storage.reset();
  EXPECT_EQ(device_->figures()->free_bytes, 1u << 20);
  EXPECT_THAT(log.events(), ElementsAre("register a", "release a"));
}

}  // namespace
}  // namespace towpath::memory
