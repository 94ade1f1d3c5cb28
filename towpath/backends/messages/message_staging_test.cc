// Frames that stand in the memory of devices, over a carrier that takes them there.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include <towpath/backends/messages/message_backend_fixture.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using device::testing::FakeCuda;

/// Memory of a device, which a libcuda of the tests plays, registered with a backend.
struct OnDevice {
  explicit OnDevice(Side& side)
      : gpu(device::CudaDriver::open({.library = FakeCuda::path()}).value()->open(0).value()),
        bytes(gpu->allocate(kPool).value()),
        region{.kind = MemoryKind::device, .address = bytes.address(), .length = kPool},
        registered(side.backend->register_memory(region).value()) {}

  std::vector<std::byte> read() const {
    std::vector<std::byte> here(kPool);
    EXPECT_TRUE(gpu->copy({address_of(here.data()), bytes.address(), kPool}).ok());
    return here;
  }
  void write(const std::vector<std::byte>& from) const {
    EXPECT_TRUE(gpu->copy({bytes.address(), address_of(from.data()), kPool}).ok());
  }

  std::shared_ptr<device::Device> gpu;
  device::Memory bytes;
  RegionDescriptor region;
  std::unique_ptr<Memory> registered;
};

class StagingTest : public ::testing::Test {
 protected:
  StagingTest() {
    way_ = near_.backend->connect(far_.self, far_.backend->connection_info()).value();
    remote_host_ = import(far_.region(), *far_.memory);
    remote_device_ = import(far_device_.region, *far_device_.registered);
    near_.fill(1);
    far_.fill(2);
    near_device_.write(near_.pool);
    far_device_.write(far_.pool);
    settle();
  }
  ~StagingTest() override {
    EXPECT_STREQ(cuda_.complaints(), "");
    near_.operation.reset();
  }
  std::unique_ptr<Memory> import(const RegionDescriptor& region, const Memory& memory) {
    return near_.backend->import_memory(*way_, region, memory.key()).value();
  }
  void settle() {
    for (int i = 0; i < 200; ++i) {
      near_.backend->progress();
      far_.backend->progress();
    }
  }
  /// `count` extents, of the device at the sides where `local` and `remote` say so.
  Segment extents(bool local, bool remote, std::uint64_t length = kPool,
                  std::uint64_t count = 1) const {
    return {.local = local ? near_device_.registered.get() : near_.memory.get(),
            .remote = remote ? remote_device_.get() : remote_host_.get(),
            .local_address = local ? near_device_.bytes.address() : near_.region().address,
            .remote_address = remote ? far_device_.bytes.address() : far_.region().address,
            .length = length,
            .count = count,
            .local_stride = kPool / count,
            .remote_stride = kPool / count};
  }
  void post(TransferOp op, const Segment& what) {
    segments_ = {what};
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
  }
  Completion outcome() const {
    const auto& last = near_.events.last(*near_.operation);
    return {.status = last.status, .bytes = last.bytes};
  }
  Completion move(TransferOp op, const Segment& what) {
    post(op, what);
    settle();
    return outcome();
  }

  const FakeCuda cuda_;
  ManualClock clock_;
  net::testing::FakeNetwork network_;
  Side near_{network_, clock_, "near", true};
  Side far_{network_, clock_, "far", true};
  OnDevice near_device_{near_};
  OnDevice far_device_{far_};
  std::unique_ptr<Connection> way_;
  std::unique_ptr<Memory> remote_host_, remote_device_;
  std::vector<Segment> segments_;
};

TEST_F(StagingTest, bytes_go_between_devices_from_room_to_room) {
  const auto mine = near_.pool;
  const auto theirs = far_.pool;
  EXPECT_EQ(move(TransferOp::write, extents(true, true)).bytes, kPool);
  EXPECT_EQ(network_.out_of_staging, kPool / kPayloadBytes);
  EXPECT_EQ(network_.into_staging, kPool / kPayloadBytes);
  EXPECT_TRUE(far_device_.read() == mine);
  far_device_.write(theirs);
  EXPECT_EQ(move(TransferOp::read, extents(true, true)).bytes, kPool);
  EXPECT_EQ(network_.out_of_staging, 2 * kPool / kPayloadBytes);
  EXPECT_EQ(network_.into_staging, 2 * kPool / kPayloadBytes);
  EXPECT_TRUE(near_device_.read() == theirs);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(move(TransferOp::read, extents(true, true)).bytes, kPool);
  EXPECT_EQ(network_.out_of_staging, 4 * kPool / kPayloadBytes) << "rooms are used again";
  EXPECT_NE(near_.backend->describe_path(*near_device_.registered, *remote_device_).find("room"),
            std::string::npos);
}

TEST_F(StagingTest, bytes_go_between_a_device_and_the_host_either_way) {
  const auto mine = near_.pool;
  const auto theirs = far_.pool;
  EXPECT_EQ(move(TransferOp::write, extents(true, false)).bytes, kPool);
  EXPECT_TRUE(far_.pool == mine);
  EXPECT_GT(network_.out_of_staging, 0U);
  EXPECT_EQ(network_.into_staging, 0U);
  far_.pool = theirs;
  EXPECT_EQ(move(TransferOp::read, extents(true, false)).bytes, kPool);
  EXPECT_TRUE(near_device_.read() == theirs);
  const std::uint64_t out = network_.out_of_staging;
  EXPECT_EQ(network_.into_staging, kPool / kPayloadBytes);
  EXPECT_EQ(move(TransferOp::write, extents(false, true)).bytes, kPool);
  EXPECT_TRUE(far_device_.read() == mine);
  EXPECT_EQ(network_.out_of_staging, out) << "it leaves from the host";
  far_device_.write(theirs);
  EXPECT_EQ(move(TransferOp::read, extents(false, true)).bytes, kPool);
  EXPECT_TRUE(near_.pool == theirs);
  EXPECT_EQ(network_.into_staging, 2 * kPool / kPayloadBytes) << "it arrives in the host's memory";
}

TEST_F(StagingTest, short_extents_are_put_together_and_taken_apart) {
  constexpr std::uint64_t kLength = 48;
  constexpr std::uint64_t kCount = 4096;
  const auto mine = near_.pool;
  auto expected = far_.pool;
  for (std::size_t i = 0; i < kCount; ++i)
    std::memcpy(&expected[i * (kPool / kCount)], &mine[i * (kPool / kCount)], kLength);
  EXPECT_EQ(move(TransferOp::write, extents(true, true, kLength, kCount)).bytes, kLength * kCount);
  EXPECT_TRUE(far_device_.read() == expected);
  near_device_.write(std::vector<std::byte>(kPool));
  EXPECT_EQ(move(TransferOp::read, extents(true, true, kLength, kCount)).bytes, kLength * kCount);
  const auto back = near_device_.read();
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t at = i * (kPool / kCount);
    ASSERT_EQ(std::memcmp(&back[at], &mine[at], kLength), 0);
    ASSERT_EQ(back[at + kLength], std::byte{0});
  }
}

TEST_F(StagingTest, pieces_of_a_device_and_of_the_host_may_be_asked_for_together) {
  Segment device = extents(true, true, 4096);
  Segment host = extents(true, false, 4096);
  host.local_address += 4096;
  segments_ = {device, host};
  near_.operation->post({.op = TransferOp::read, .connection = way_.get(), .segments = segments_});
  settle();
  EXPECT_EQ(outcome().bytes, 2 * 4096U);
  const auto got = near_device_.read();
  const auto there = far_device_.read();
  EXPECT_EQ(std::memcmp(got.data(), there.data(), 4096), 0);
  EXPECT_EQ(std::memcmp(&got[4096], far_.pool.data(), 4096), 0);
  EXPECT_EQ(network_.out_of_staging, 0U) << "a room is for what a device has";
}

// A device that fails on this side fails the transfer, on the other side the pieces.
TEST_F(StagingTest, device_that_does_not_copy_is_an_error_and_no_bytes) {
  const auto mine = near_device_.read();
  const auto theirs = far_device_.read();
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);  // of the writer
  EXPECT_EQ(move(TransferOp::write, extents(true, true, 4096)).status.code(), Code::io_error);
  EXPECT_TRUE(far_device_.read() == theirs);
  // The writer seals, the owner opens, and lands: the third.
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem, 2);
  EXPECT_EQ(move(TransferOp::write, extents(true, true, 4096)).status.code(), Code::io_error);
  // The owner seals, and answers by way of its window when that fails; the reader opens, and lands.
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);
  EXPECT_EQ(move(TransferOp::read, extents(true, true, 4096)).bytes, 4096U);
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem, 2);
  EXPECT_EQ(move(TransferOp::read, extents(true, true, 4096)).status.code(), Code::io_error);
  EXPECT_EQ(move(TransferOp::read, extents(true, true)).bytes, kPool) << "nothing is left behind";
}

// The second wait of a transfer, after the one that sealed: what has come is opened.
TEST_F(StagingTest, nobody_waits_for_an_answer_that_the_device_does_not_give) {
  const auto mine = near_device_.read();
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem, 1);
  post(TransferOp::read, extents(true, true, 4096));
  settle();
  ASSERT_EQ(near_.events.count(*near_.operation), 1U);
  EXPECT_EQ(outcome().status.code(), Code::peer_lost);
  EXPECT_NE(near_.events.last(*near_.operation).status.to_string().find("device 0 does not give"),
            std::string::npos);
  EXPECT_TRUE(near_device_.read() == mine);
}

TEST_F(StagingTest, nobody_waits_for_the_answer_to_a_write_that_the_device_does_not_give) {
  const auto theirs = far_device_.read();
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem, 1);
  post(TransferOp::write, extents(true, true, 4096));
  settle();
  for (int i = 0; i < 400 && near_.events.count(*near_.operation) == 0; ++i) {
    clock_.advance(std::chrono::milliseconds(50));
    near_.backend->progress();
    far_.backend->progress();
  }
  ASSERT_EQ(near_.events.count(*near_.operation), 1U);
  EXPECT_EQ(outcome().status.code(), Code::peer_lost) << "nobody speaks there any more";
  EXPECT_TRUE(far_device_.read() == theirs);
}

TEST_F(StagingTest, write_whose_device_fails_sends_no_more_of_it) {
  const auto theirs = far_device_.read();
  cuda_.fail_next("cuStreamSynchronize", device::cuda::kOperatingSystem);
  EXPECT_EQ(move(TransferOp::write, extents(true, true)).status.code(), Code::io_error);
  EXPECT_EQ(near_.events.count(*near_.operation), 1U);
  EXPECT_EQ(network_.out_of_staging, 0U);
  EXPECT_TRUE(far_device_.read() == theirs);
}

TEST_F(StagingTest, message_that_did_not_come_whole_does_not_land) {
  const auto theirs = far_device_.read();
  network_.room_loss = 1;
  post(TransferOp::write, extents(true, true, 4096));
  settle();
  EXPECT_EQ(network_.into_staging, 1U);
  EXPECT_EQ(near_.events.count(*near_.operation), 0U) << "nobody answers what he cannot read";
  EXPECT_TRUE(far_device_.read() == theirs);
  near_.operation->cancel();
  clock_.advance(std::chrono::seconds(2));
  near_.backend->progress();
  EXPECT_EQ(near_.events.count(*near_.operation), 1U);
}

TEST_F(StagingTest, memory_that_was_taken_back_is_refused_in_a_room_too) {
  far_device_.registered.reset();
  const auto before = far_device_.read();
  EXPECT_EQ(move(TransferOp::write, extents(true, true)).status.code(), Code::not_found);
  EXPECT_EQ(move(TransferOp::read, extents(true, true)).status.code(), Code::not_found);
  EXPECT_TRUE(far_device_.read() == before);
}

// Breaks when a device copies to memory of the host that its owner has unmapped or protected: that
// would end the process.
TEST_F(StagingTest, host_memory_that_cannot_be_touched_is_refused_in_a_room) {
  const auto unreadable = sys::Mapping::anonymous(4096).value();
  ASSERT_EQ(::mprotect(unreadable.data(), unreadable.size(), PROT_NONE), 0);
  const RegionDescriptor region{.address = address_of(unreadable.data()), .length = 4096};
  const auto bad = far_.backend->register_memory(region).value();
  const auto remote_bad = import(region, *bad);
  Segment host = extents(true, false, 4096);
  host.remote = remote_bad.get();
  host.remote_address = region.address;
  segments_ = {extents(true, true, 4096), host};
  near_.operation->post({.op = TransferOp::write, .connection = way_.get(), .segments = segments_});
  settle();
  ASSERT_EQ(near_.events.count(*near_.operation), 1U);
  EXPECT_EQ(network_.into_staging, 1U);
  const auto& last = near_.events.last(*near_.operation);
  EXPECT_EQ(last.bytes, 4096U);
  ASSERT_EQ(last.failures.size(), 1U);
  EXPECT_EQ(last.failures.front().segment, 1U);
  EXPECT_EQ(last.failures.front().status.code(), Code::io_error);
}

// The owner is stopped, as by SIGSTOP, and goes on when the writer has long been told.
TEST_F(StagingTest, write_that_ended_does_not_land_late) {
  const auto before = far_device_.read();
  network_.port(far_.port).stopped = true;
  post(TransferOp::write, extents(true, true, 4096));
  settle();
  near_.operation->cancel();
  for (int i = 0; i < 100 && near_.events.count(*near_.operation) == 0; ++i) {
    clock_.advance(std::chrono::milliseconds(50));
    near_.backend->progress();
  }
  ASSERT_EQ(near_.events.count(*near_.operation), 1U);
  network_.port(far_.port).stopped = false;
  settle();
  EXPECT_TRUE(far_device_.read() == before);
}

// Staging that the carrier does not give back are made up for by the host's memory.
TEST_F(StagingTest, without_a_free_room_bytes_leave_by_the_window) {
  const auto mine = near_.pool;
  network_.keeps_staging = true;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(move(TransferOp::write, extents(true, true)).bytes, kPool);
    EXPECT_TRUE(far_device_.read() == mine);
    far_device_.write(far_.pool);
  }
  EXPECT_EQ(network_.out_of_staging, 8U) << "all there are";
  EXPECT_EQ(network_.into_staging, 5 * kPool / kPayloadBytes);
}

TEST_F(StagingTest, messages_into_a_room_that_are_none_of_ours_are_dropped) {
  const auto before = far_device_.read();
  const auto junk = [&](std::uint32_t head, std::uint32_t body, std::size_t size) {
    std::vector<std::byte> bytes(size, std::byte{0x5a});
    if (size >= 8) {
      std::memcpy(bytes.data(), &head, 4);
      std::memcpy(bytes.data() + 4, &body, 4);
    }
    network_.fill_room(far_.port, 0, bytes);
  };
  junk(0, 0, 3);
  junk(0, 0, 8);
  junk(40, 60, 108);
  junk(0xffffffff, 0xffffffff, 108);
  junk(0xfffffff8, 108, 108);
  junk(20000, 8, 20016);
  settle();
  EXPECT_TRUE(far_device_.read() == before);
  EXPECT_EQ(move(TransferOp::write, extents(true, true)).bytes, kPool) << "the rooms are back";
}

TEST(IntoFlagsTest, device_of_an_answer_is_said_beside_the_other_flags) {
  EXPECT_EQ(into_of(into_flags(0)), 0U);
  EXPECT_EQ(into_of(into_flags(30) | kInUse | kAnswerMe | kStale), 30U);
  EXPECT_EQ(into_of(into_flags(31)), std::nullopt) << "no room for it: by the host";
  EXPECT_EQ(into_of(kInUse | kAnswerMe | kStale), std::nullopt);
}

}  // namespace
}  // namespace towpath::backends::messages
