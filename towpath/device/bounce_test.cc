#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/clock.h>
#include <towpath/device/bounce.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/watched_device.h>

namespace towpath::device {
namespace {

using ::testing::HasSubstr;

class BounceTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  const std::shared_ptr<testing::DeviceHands> hands_ = std::make_shared<testing::DeviceHands>();
  HostDriver driver_{clock_, {}};
  const std::shared_ptr<Device> device_ =
      std::make_shared<testing::WatchedDevice>(driver_.open(0).value(), hands_);
};

TEST_F(BounceTest, slots_are_pinned_apart_and_bounded) {
  auto slots = BounceSlots::make(device_.get(), {.slots = 3, .slot_bytes = 8192}).value();
  EXPECT_EQ(slots.kind(), MemoryKind::pinned);
  EXPECT_TRUE(slots.refusal().ok());
  const ByteSpan first = slots.take(), second = slots.take(), third = slots.take();
  EXPECT_EQ(first.size(), 8192u);
  EXPECT_EQ(second.data(), first.data() + 8192);
  EXPECT_EQ(third.data(), second.data() + 8192);
  EXPECT_EQ(address_of(first.data()) % 4096, 0u);
  EXPECT_TRUE(slots.take().empty());
  slots.give_back(second);
  EXPECT_EQ(slots.take().data(), second.data());
}

TEST_F(BounceTest, plain_pages_serve_where_nothing_can_be_pinned_and_the_reason_is_kept) {
  hands_->refuses_pinned = true;
  const auto slots = BounceSlots::make(device_.get(), {.slots = 1, .slot_bytes = 4096}).value();
  EXPECT_EQ(slots.kind(), MemoryKind::system);
  EXPECT_THAT(slots.refusal().to_string(), HasSubstr("a test has no pinned memory"));
  EXPECT_EQ(BounceSlots::make_pinned(*device_, {.slots = 1, .slot_bytes = 4096}).code(),
            Code::exhausted);
  const auto alone = BounceSlots::make(nullptr, {.slots = 1, .slot_bytes = 4096}).value();
  EXPECT_EQ(alone.kind(), MemoryKind::system);
  EXPECT_TRUE(alone.refusal().ok()) << "none was wanted";
}

TEST_F(BounceTest, sizes_that_no_memory_has_are_refused) {
  for (const BounceSlots::Size size : {BounceSlots::Size{0, 4096}, {4096, 0}, {UINT64_MAX, 4096}})
    EXPECT_EQ(BounceSlots::make(device_.get(), size).code(), Code::invalid_argument);
}

TEST_F(BounceTest, a_stream_whose_work_failed_has_passed_and_is_not_used_again) {
  CopyStream stream(device_);
  Stream* first = nullptr;
  Stream* second = nullptr;
  EXPECT_TRUE(stream.give([&](Stream& given) { return first = &given, Status(); }).ok());
  EXPECT_EQ(hands_->waits, 0);
  const auto fail = [](Stream&) -> Status { return error(Code::io_error, "a test's work"); };
  EXPECT_EQ(stream.give(fail).code(), Code::io_error);
  EXPECT_EQ(hands_->waits, 1) << "what was given before may not move afterwards";
  const auto keep = device_->create_stream();  // so that the next one has another address
  EXPECT_TRUE(stream.give([&](Stream& given) { return second = &given, Status(); }).ok());
  EXPECT_NE(first, second);
  stream.drop();
  EXPECT_EQ(hands_->waits, 2);
}

TEST_F(BounceTest, a_stream_whose_work_threw_has_passed_too) {
  CopyStream stream(device_);
  const auto fall_over = [](Stream&) -> Status { throw std::bad_alloc(); };
  EXPECT_THROW((void)stream.give(fall_over), std::bad_alloc);
  EXPECT_EQ(hands_->waits, 1) << "what was given before may not move afterwards";
}

TEST_F(BounceTest, copies_are_waited_for_whether_they_were_given_or_not) {
  CopyStream stream(device_);
  auto memory = device_->allocate(4096).value();
  Bytes here(4096, std::byte{7});
  const Copy copy{memory.address(), address_of(here.data()), here.size()};
  EXPECT_TRUE(stream.copy_and_wait({&copy, 1}).ok());
  EXPECT_EQ(hands_->waits, 1);
  hands_->fail_batches = 1;
  EXPECT_EQ(stream.copy_and_wait({&copy, 1}).code(), Code::io_error);
  EXPECT_EQ(hands_->waits, 2);
  EXPECT_TRUE(stream.copy_and_wait({&copy, 1}).ok()) << "by a new stream";
  EXPECT_TRUE(stream.copy_and_wait({}).ok());
  EXPECT_EQ(hands_->waits, 3) << "nothing to wait for";
}

}  // namespace
}  // namespace towpath::device
