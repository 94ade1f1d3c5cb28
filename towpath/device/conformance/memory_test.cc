// What every driver keeps of memory and pointers.
#include <algorithm>
#include <cstring>

#include <towpath/device/conformance/candidate.h>
#include <towpath/sys/mapping.h>

namespace towpath::device::conformance {
namespace {

constexpr std::size_t kMiB = 1 << 20;

ByteSpan bytes_of(const Memory& memory) { return bytes_at(memory.address(), memory.size()); }

TEST_P(DeviceConformance, says_what_it_is) {
  EXPECT_FALSE(driver_->info().name.empty());
  EXPECT_FALSE(driver_->info().version.empty());
  EXPECT_EQ(driver_->info().is_gpu, GetParam() != "host");
  EXPECT_EQ(device_->info().ordinal, 0u);
  EXPECT_FALSE(device_->info().name.empty());
  const bool owns_up = device_->info().name.find("no GPU") != std::string::npos;
  EXPECT_EQ(owns_up, GetParam() != "cuda") << device_->info().name;
}

TEST_P(DeviceConformance, describes_each_of_its_devices_and_no_other) {
  const unsigned count = driver_->device_count().value();
  ASSERT_GE(count, 1u);
  for (unsigned i = 0; i < count; ++i) {
    const auto info = driver_->describe(i);
    ASSERT_TRUE(info.ok()) << info.status().to_string();
    EXPECT_EQ(info->ordinal, i);
    EXPECT_GT(info->memory_bytes, 0u);
  }
  EXPECT_EQ(driver_->describe(count).code(), Code::out_of_range);
  EXPECT_EQ(driver_->open(count).code(), Code::out_of_range);
}

TEST_P(DeviceConformance, the_same_device_while_it_is_held) {
  EXPECT_EQ(driver_->open(0).value(), device_);
}

TEST_P(DeviceConformance, a_device_lives_as_long_as_what_it_made) {
  auto memory = device_->allocate(4096).value();
  auto stream = device_->create_stream().value();
  device_.reset();
  driver_.reset();
  EXPECT_TRUE(stream->fill({.address = memory.address(), .length = 4096}).ok());
  EXPECT_TRUE(stream->synchronize().ok());
  EXPECT_TRUE(memory.release().ok());
}

TEST_P(DeviceConformance, device_memory_holds_what_was_copied_to_it) {
  const auto there = random_bytes(1, kMiB + 13);
  std::vector<std::byte> back(there.size());
  auto one = device_->allocate(there.size()).value();
  auto other = device_->allocate(there.size()).value();
  const auto copy = [&](std::uint64_t target, std::uint64_t source) {
    const Status status = device_->copy({target, source, there.size()});
    EXPECT_TRUE(status.ok()) << status.to_string();
  };
  copy(one.address(), address_of(there.data()));
  copy(other.address(), one.address());
  copy(address_of(back.data()), other.address());
  EXPECT_EQ(back, there);
}

TEST_P(DeviceConformance, a_copy_moves_its_bytes_and_no_others_at_any_alignment) {
  constexpr std::uint64_t kRoom = 64;
  const auto here = random_bytes(1, kRoom);
  auto there = device_->allocate(kRoom).value();
  for (std::uint64_t length : {1, 7, 8, 9, 23, 40}) {
    for (std::uint64_t offset = 0; offset < 64; ++offset) {
      const std::uint64_t to = offset % 8;
      const std::uint64_t from = offset / 8;
      auto expected = random_bytes(2, kRoom);
      ASSERT_TRUE(device_->copy({there.address(), address_of(expected.data()), kRoom}).ok());
      ASSERT_TRUE(
          device_->copy({there.address() + to, address_of(here.data()) + from, length}).ok());
      std::copy_n(here.begin() + static_cast<std::ptrdiff_t>(from), length,
                  expected.begin() + static_cast<std::ptrdiff_t>(to));
      std::vector<std::byte> back(kRoom);
      ASSERT_TRUE(device_->copy({address_of(back.data()), there.address(), kRoom}).ok());
      ASSERT_EQ(back, expected) << length << " bytes from " << from << " to " << to;
    }
  }
}

TEST_P(DeviceConformance, no_bytes_and_too_many_are_refused) {
  EXPECT_EQ(device_->allocate(0).code(), Code::invalid_argument);
  EXPECT_EQ(device_->allocate_pinned(0).code(), Code::invalid_argument);
  EXPECT_EQ(device_->register_host({}).code(), Code::invalid_argument);
  const Status status = device_->allocate(std::uint64_t{1} << 50U).status();
  EXPECT_EQ(status.code(), Code::exhausted) << status.to_string();
  EXPECT_NE(status.message().find("1125899906842624"), std::string_view::npos);
  EXPECT_FALSE(status.hint().empty());
  EXPECT_TRUE(device_->copy({.length = 0}).ok());
}

TEST_P(DeviceConformance, memory_goes_back_once) {
  auto memory = device_->allocate(64 * kMiB).value();
  const auto during = device_->figures().value();
  EXPECT_LE(during.free_bytes, during.total_bytes);
  EXPECT_TRUE(memory.release().ok());
  EXPECT_GE(device_->figures()->free_bytes, during.free_bytes + 32 * kMiB);
  EXPECT_FALSE(memory);
  EXPECT_TRUE(memory.release().ok());
  Memory first = device_->allocate(4096).value();
  Memory second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is asked
  EXPECT_EQ(second.size(), 4096u);
}

TEST_P(DeviceConformance, pinned_memory_is_the_hosts_and_the_devices) {
  const auto there = random_bytes(2, 64 * 1024);
  auto pinned = device_->allocate_pinned(there.size()).value();
  auto memory = device_->allocate(there.size()).value();
  EXPECT_NE(pinned.device_address(), 0u);
  std::memcpy(bytes_of(pinned).data(), there.data(), there.size());
  ASSERT_TRUE(device_->copy({memory.address(), pinned.address(), there.size()}).ok());
  std::memset(bytes_of(pinned).data(), 0, there.size());
  ASSERT_TRUE(device_->copy({pinned.address(), memory.address(), there.size()}).ok());
  EXPECT_EQ(std::memcmp(bytes_of(pinned).data(), there.data(), there.size()), 0);
}

TEST_P(DeviceConformance, host_memory_is_registered_once_at_a_time) {
  auto mapping = sys::Mapping::anonymous(256 * 1024).value();
  auto registered = device_->register_host(mapping.bytes());
  ASSERT_TRUE(registered.ok()) << registered.status().to_string();
  EXPECT_EQ(registered->origin(), Origin::registered);
  EXPECT_EQ(driver_->facts_of(address_of(mapping.data()) + 5)->kind, MemoryKind::pinned);
  EXPECT_EQ(device_->register_host(mapping.bytes()).code(), Code::already_exists);
  EXPECT_TRUE(registered->release().ok());
  EXPECT_EQ(driver_->facts_of(address_of(mapping.data()) + 5)->kind, MemoryKind::system);
  EXPECT_TRUE(device_->register_host(mapping.bytes()).ok());
}

TEST_P(DeviceConformance, a_pointer_reports_what_lies_there) {
  auto memory = device_->allocate(4096).value();
  auto pinned = device_->allocate_pinned(4096).value();
  const int local = 0;
  const PointerFacts on_device = driver_->facts_of(memory.address() + 4095).value();
  EXPECT_EQ(on_device.kind, MemoryKind::device);
  EXPECT_EQ(on_device.device, 0u);
  EXPECT_FALSE(on_device.managed);
  EXPECT_EQ(driver_->facts_of(pinned.address())->kind, MemoryKind::pinned);
  EXPECT_EQ(driver_->facts_of(address_of(&local))->kind, MemoryKind::system);
}

TEST_P(DeviceConformance, a_device_is_current_for_a_scope) {
  const auto outer = device_->make_current();
  ASSERT_TRUE(outer.ok()) << outer.status().to_string();
  const auto inner = device_->make_current();
  ASSERT_TRUE(inner.ok());
  EXPECT_TRUE(device_->allocate(4096).ok());
}

TEST_P(DeviceConformance, devices_reach_themselves_and_perhaps_their_peers) {
  EXPECT_TRUE(device_->can_reach(*device_).value());
  EXPECT_TRUE(device_->enable_peer(*device_).ok());
  if (driver_->device_count().value() < 2) GTEST_SKIP() << "there is one device only";
  const auto peer = driver_->open(1).value();
  const auto there = random_bytes(3, 8192);
  std::vector<std::byte> back(there.size());
  auto here = device_->allocate(there.size()).value();
  auto far = peer->allocate(there.size()).value();
  EXPECT_EQ(driver_->facts_of(far.address())->device, 1u);
  if (device_->can_reach(*peer).value()) {
    EXPECT_TRUE(device_->enable_peer(*peer).ok());
    EXPECT_TRUE(device_->enable_peer(*peer).ok()) << "twice is once";
  }
  ASSERT_TRUE(device_->copy({here.address(), address_of(there.data()), there.size()}).ok());
  ASSERT_TRUE(device_->copy({far.address(), here.address(), there.size()}).ok());
  ASSERT_TRUE(peer->copy({address_of(back.data()), far.address(), there.size()}).ok());
  EXPECT_EQ(back, there);
}

}  // namespace
}  // namespace towpath::device::conformance
