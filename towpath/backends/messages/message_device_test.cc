// A device's memory, moved by its owner.
#include <algorithm>

#include <towpath/backends/messages/message_backend_fixture.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using device::testing::FakeCuda;

/// The far side has memory of a device, which a libcuda of the tests plays.
class DeviceTest : public MessageBackendTest {
 protected:
  void SetUp() override {
    MessageBackendTest::SetUp();
    const auto driver = device::CudaDriver::open({.library = FakeCuda::path()}).value();
    gpu_ = driver->open(0).value();
    memory_ = gpu_->allocate(kPool).value();
    const RegionDescriptor region{
        .kind = MemoryKind::device, .address = memory_.address(), .length = kPool};
    registered_ = far_.backend->register_memory(region).value();
    on_device_ = near_.backend->import_memory(*way_, region, registered_->key()).value();
  }
  void TearDown() override {
    on_device_.reset();
    MessageBackendTest::TearDown();
  }
  Segment extents(std::uint64_t length, std::uint64_t count) const {
    return {.local = near_.memory.get(),
            .remote = on_device_.get(),
            .local_address = near_.region().address,
            .remote_address = memory_.address(),
            .length = length,
            .count = count,
            .local_stride = kPool / count,
            .remote_stride = kPool / count};
  }
  Completion move(TransferOp op, const Segment& what) {
    segments_ = {what};
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
    settle();
    const auto& last = near_.events.last(*near_.operation);
    return {.status = last.status, .bytes = last.bytes};
  }

  const FakeCuda cuda_;
  std::shared_ptr<device::Device> gpu_;
  device::Memory memory_;
  std::unique_ptr<Memory> registered_, on_device_;
};

INSTANTIATE_TEST_SUITE_P(Bodies, DeviceTest, ::testing::Values(Bodies::whole, Bodies::streamed),
                         kBothWays);

TEST_P(DeviceTest, owner_brings_and_takes_the_bytes_of_its_device) {
  const auto before = near_.pool;
  for (const auto& [length, count] : {std::pair(kPool, 1UL), std::pair(48UL, 4096UL)}) {
    EXPECT_EQ(move(TransferOp::write, extents(length, count)).bytes, length * count);
    std::ranges::fill(near_.pool, std::byte{0});
    EXPECT_EQ(move(TransferOp::read, extents(length, count)).bytes, length * count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i * (kPool / count));
      ASSERT_TRUE(std::equal(near_.pool.begin() + at,
                             near_.pool.begin() + at + static_cast<std::ptrdiff_t>(length),
                             before.begin() + at));
    }
    near_.pool = before;
  }
  EXPECT_NE(near_.backend->describe_path(*near_.memory, *on_device_).find("copies of its device"),
            std::string::npos);
  EXPECT_STREQ(cuda_.complaints(), "");
}

TEST_P(DeviceTest, without_pinned_memory_it_goes_through_plain_memory) {
  Side poor(network_, clock_, "poor");
  const auto path = near_.backend->connect(poor.self, poor.backend->connection_info()).value();
  cuda_.fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  const RegionDescriptor region{
      .kind = MemoryKind::device, .address = memory_.address(), .length = kPool};
  const auto registered = poor.backend->register_memory(region).value();
  const auto imported = near_.backend->import_memory(*path, region, registered->key()).value();
  Segment all = extents(kPool, 1);
  all.remote = imported.get();
  segments_ = {all};
  near_.operation->post({.op = TransferOp::write, .connection = path.get(), .segments = segments_});
  for (int i = 0; i < 200; ++i) {
    near_.backend->progress();
    poor.backend->progress();
  }
  ASSERT_EQ(done(), 1U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  std::vector<std::byte> there(kPool);
  ASSERT_TRUE(gpu_->copy({address_of(there.data()), memory_.address(), kPool}).ok());
  EXPECT_TRUE(there == near_.pool);
  near_.operation.reset();
}

TEST_P(DeviceTest, device_that_does_not_copy_is_an_error_of_the_piece) {
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);
    const Completion outcome = move(op, extents(kPool, 1));
    EXPECT_EQ(outcome.status.code(), Code::io_error);
    EXPECT_EQ(outcome.bytes, kPool - kPayloadBytes) << "the others went";
  }
  EXPECT_TRUE(move(TransferOp::read, extents(kPool, 1)).status.ok());
}

TEST_P(DeviceTest, device_that_does_not_copy_refuses_its_own_pieces_alone_and_in_their_order) {
  auto second = far_.backend->register_memory(far_.region()).value();
  const auto gone = near_.backend->import_memory(*way_, far_.region(), second->key()).value();
  second.reset();
  const auto piece = [&](Memory& remote, std::uint64_t address, std::uint64_t at) {
    return Segment{.local = near_.memory.get(),
                   .remote = &remote,
                   .local_address = near_.region().address + at,
                   .remote_address = address + at,
                   .length = 4096};
  };
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    segments_ = {
        piece(*remote_, far_.region().address, 0), piece(*on_device_, memory_.address(), 0),
        piece(*gone, far_.region().address, 4096), piece(*remote_, far_.region().address, 8192)};
    cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
    settle();
    const auto& last = near_.events.last(*near_.operation);
    EXPECT_EQ(last.bytes, 2 * 4096U);
    ASSERT_EQ(last.failures.size(), 2U);
    EXPECT_EQ(last.failures[0].segment, 1U);
    EXPECT_EQ(last.failures[0].status.code(), Code::io_error);
    EXPECT_EQ(last.failures[1].segment, 2U);
    EXPECT_EQ(last.failures[1].status.code(), Code::not_found);
  }
}

TEST_P(DeviceTest, device_memory_that_was_taken_back_or_is_ones_own_is_out_of_reach) {
  registered_.reset();
  EXPECT_EQ(move(TransferOp::write, extents(kPool, 1)).status.code(), Code::not_found);
  const auto to_self = near_.backend->connect(near_.self, near_.backend->connection_info());
  ASSERT_TRUE(to_self.ok());
  const RegionDescriptor region{
      .kind = MemoryKind::device, .address = memory_.address(), .length = kPool};
  const auto own = near_.backend->register_memory(region).value();
  EXPECT_EQ(near_.backend->import_memory(**to_self, region, own->key()).code(), Code::unsupported);
}

}  // namespace
}  // namespace towpath::backends::messages
