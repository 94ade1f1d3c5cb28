// Two backends on a network of the test's own, under a clock that only the test moves: what holds
// whatever UCX does.
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/handshake.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/net/messages/testing/fake_network.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using device::testing::FakeCuda;
using std::chrono::milliseconds;

constexpr std::size_t kPool = 4 * kPayloadBytes;

Carrier carrier_of(net::testing::FakeNetwork& network) {
  Carrier carrier;
  carrier.name = "ucx";
  carrier.path = "messages over a network of the test's";
  carrier.make_worker =
      [&network](const Params&,
                 net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
    return network.open(kFrameBytes, listener);
  };
  return carrier;
}

/// A backend and memory.
struct Side {
  Side(net::testing::FakeNetwork& network, const Clock& clock, const std::string& name)
      : self{name, 7}, pool(kPool) {
    const auto open_cuda = []() -> Result<std::shared_ptr<device::Driver>> {
      TOWPATH_TRY(auto driver, device::CudaDriver::open({.library = FakeCuda::path()}));
      return std::shared_ptr<device::Driver>(std::move(driver));
    };
    Registry registry;
    EXPECT_TRUE(registry.add(message_type(carrier_of(network), {.open = open_cuda})).ok());
    auto opened = registry.open("UCX", {.self = self, .clock = &clock, .events = &events});
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    backend = *std::move(opened);
    port = network.last();
    memory = *backend->register_memory(region());
    operation = backend->make_operation();
  }
  RegionDescriptor region() const { return {.address = address_of(pool.data()), .length = kPool}; }
  void fill(int seed) {
    std::uint64_t value = static_cast<std::uint64_t>(seed);
    for (std::byte& byte : pool)
      byte = static_cast<std::byte>((value = value * 6364136223846793005U + 1) >> 56U);
  }

  AgentIdentity self;
  ::towpath::backend::testing::RecordingEvents events;
  std::vector<std::byte> pool;
  std::uint64_t port = 0;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Operation> operation;
};

/// How the network carries bodies: whole, or from where they lie to where they belong, a little at
/// a time, as a stream does.
enum class Bodies { whole, streamed };

class MessageBackendTest : public ::testing::TestWithParam<Bodies> {
 protected:
  void SetUp() override {
    if (GetParam() == Bodies::streamed) {
      network_.holds_bodies = true;
      network_.body_step = 100'001;
    }
    auto way = near_.backend->connect(far_.self, far_.backend->connection_info());
    ASSERT_TRUE(way.ok()) << way.status().to_string();
    way_ = *std::move(way);
    auto imported = near_.backend->import_memory(*way_, far_.region(), far_.memory->key());
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    remote_ = *std::move(imported);
    near_.fill(1);
    far_.fill(2);
  }
  void TearDown() override {
    remote_.reset();
    near_.operation.reset();
    way_.reset();
  }
  void turn() {
    near_.backend->progress();
    far_.backend->progress();
  }
  void settle() {
    for (int i = 0; i < 100; ++i) turn();
  }
  /// One stretch of all bytes.
  void post(TransferOp op) {
    segments_ = {{.local = near_.memory.get(),
                  .remote = remote_.get(),
                  .local_address = near_.region().address,
                  .remote_address = far_.region().address,
                  .length = kPool}};
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
  }
  std::size_t done() const { return near_.events.count(*near_.operation); }
  const Status& outcome() const { return near_.events.last(*near_.operation).status; }

  ManualClock clock_;
  net::testing::FakeNetwork network_;
  Side near_{network_, clock_, "near"};
  Side far_{network_, clock_, "far"};
  std::unique_ptr<Connection> way_;
  std::unique_ptr<Memory> remote_;
  std::vector<Segment> segments_;
};

constexpr auto kBothWays = [](const auto& bodies) {
  return bodies.param == Bodies::whole ? "whole" : "streamed";
};
INSTANTIATE_TEST_SUITE_P(Bodies, MessageBackendTest,
                         ::testing::Values(Bodies::whole, Bodies::streamed), kBothWays);

TEST_P(MessageBackendTest, bytes_move_both_ways) {
  const auto near_before = near_.pool;
  post(TransferOp::write);
  settle();
  ASSERT_EQ(done(), 1U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  EXPECT_TRUE(far_.pool == near_before);
  far_.fill(3);
  post(TransferOp::read);
  settle();
  ASSERT_EQ(done(), 2U);
  EXPECT_TRUE(near_.pool == far_.pool);
  EXPECT_EQ(near_.events.last(*near_.operation).bytes, kPool);
}

TEST_P(MessageBackendTest, strided_stretches_stay_one_value_on_the_wire) {
  settle();
  constexpr std::uint64_t kCount = 1000;
  segments_ = {{.local = near_.memory.get(),
                .remote = remote_.get(),
                .local_address = near_.region().address + 3,
                .remote_address = far_.region().address + 5,
                .length = 16,
                .count = kCount,
                .local_stride = 64,
                .remote_stride = 48}};
  near_.operation->post({.op = TransferOp::write, .connection = way_.get(), .segments = segments_});
  ASSERT_EQ(network_.port(far_.port).arrived.size(), 1U);
  const auto& message = network_.port(far_.port).arrived.front();
  EXPECT_EQ(message.head.size(), kHeaderBytes + kPieceBytes);
  EXPECT_EQ(message.body.size(), 16 * kCount);
  auto expected = far_.pool;
  for (std::uint64_t i = 0; i < kCount; ++i)
    std::copy_n(near_.pool.begin() + 3 + static_cast<std::ptrdiff_t>(i) * 64, 16,
                expected.begin() + 5 + static_cast<std::ptrdiff_t>(i) * 48);
  settle();
  EXPECT_TRUE(far_.pool == expected);
}

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
  Segment stretches(std::uint64_t length, std::uint64_t count) const {
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
    EXPECT_EQ(move(TransferOp::write, stretches(length, count)).bytes, length * count);
    std::ranges::fill(near_.pool, std::byte{0});
    EXPECT_EQ(move(TransferOp::read, stretches(length, count)).bytes, length * count);
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
  const auto way = near_.backend->connect(poor.self, poor.backend->connection_info()).value();
  cuda_.fail_next("cuMemHostAlloc", device::cuda::kOutOfMemory);
  const RegionDescriptor region{
      .kind = MemoryKind::device, .address = memory_.address(), .length = kPool};
  const auto registered = poor.backend->register_memory(region).value();
  const auto imported = near_.backend->import_memory(*way, region, registered->key()).value();
  Segment all = stretches(kPool, 1);
  all.remote = imported.get();
  segments_ = {all};
  near_.operation->post({.op = TransferOp::write, .connection = way.get(), .segments = segments_});
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
    const Completion outcome = move(op, stretches(kPool, 1));
    EXPECT_EQ(outcome.status.code(), Code::io_error);
    EXPECT_EQ(outcome.bytes, kPool - kPayloadBytes) << "the others went";
  }
  EXPECT_TRUE(move(TransferOp::read, stretches(kPool, 1)).status.ok());
}

TEST_P(DeviceTest, device_memory_that_was_taken_back_or_is_ones_own_is_out_of_reach) {
  registered_.reset();
  EXPECT_EQ(move(TransferOp::write, stretches(kPool, 1)).status.code(), Code::not_found);
  const auto to_self = near_.backend->connect(near_.self, near_.backend->connection_info());
  ASSERT_TRUE(to_self.ok());
  const RegionDescriptor region{
      .kind = MemoryKind::device, .address = memory_.address(), .length = kPool};
  const auto own = near_.backend->register_memory(region).value();
  EXPECT_EQ(near_.backend->import_memory(**to_self, region, own->key()).code(), Code::unsupported);
}

// The promise of the lease: breaks when answer() places under any grant.
TEST_P(MessageBackendTest, late_bytes_of_a_stopped_owner_never_land) {
  settle();
  network_.port(far_.port).stopped = true;
  post(TransferOp::write);
  near_.backend->progress();
  near_.operation->cancel();
  EXPECT_EQ(done(), 0U) << "its bytes may still land";
  clock_.advance(near_.backend->capabilities().quiet_bound + milliseconds(1));
  near_.backend->progress();
  ASSERT_EQ(done(), 1U);
  EXPECT_EQ(outcome().code(), Code::cancelled);
  const auto before = far_.pool;
  network_.port(far_.port).stopped = false;
  settle();
  EXPECT_TRUE(far_.pool == before) << "a byte landed after the end";
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, owner_that_was_slow_is_asked_again) {
  settle();
  network_.port(far_.port).stopped = true;
  post(TransferOp::write);
  clock_.advance(milliseconds(1500));  // longer than the lease, shorter than the timeout
  network_.port(far_.port).stopped = false;
  settle();
  ASSERT_EQ(done(), 1U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  EXPECT_TRUE(far_.pool == near_.pool);
}

TEST_P(MessageBackendTest, cancelled_read_is_quiet_at_once) {
  settle();
  post(TransferOp::read);
  far_.backend->progress();  // the answers are on their way
  near_.operation->cancel();
  ASSERT_EQ(done(), 1U);
  const auto before = near_.pool;
  settle();
  EXPECT_TRUE(near_.pool == before);
  EXPECT_EQ(done(), 1U);
}

TEST_P(MessageBackendTest, memory_that_was_taken_back_fails_and_the_peer_stays) {
  far_.memory.reset();
  const auto before = far_.pool;
  for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
    post(op);
    settle();
    EXPECT_EQ(outcome().code(), Code::not_found);
    const auto& told = near_.events.last(*near_.operation);
    ASSERT_EQ(told.failures.size(), 1U) << "one stretch, though it went in several frames";
    EXPECT_EQ(told.failures.front().bytes, 0U);
    EXPECT_EQ(told.bytes, 0U);
  }
  EXPECT_TRUE(far_.pool == before);
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, silent_peer_is_lost_after_the_timeout_and_not_before) {
  settle();
  network_.deaf = true;
  post(TransferOp::read);
  for (int i = 0; i < 19; ++i) {
    clock_.advance(milliseconds(250));
    settle();
  }
  EXPECT_TRUE(near_.events.losses.empty());
  clock_.advance(milliseconds(500));
  settle();
  ASSERT_EQ(near_.events.losses.size(), 1U);
  EXPECT_EQ(near_.events.losses.front().connection, way_.get());
  ASSERT_EQ(done(), 1U);
  EXPECT_EQ(outcome().code(), Code::peer_lost);
  post(TransferOp::read);
  EXPECT_EQ(outcome().code(), Code::peer_lost);
  EXPECT_EQ(near_.backend->notify(*way_, as_bytes("x")).code(), Code::peer_lost);
}

TEST_P(MessageBackendTest, idle_peers_keep_each_other_alive) {
  for (int i = 0; i < 100; ++i) {
    clock_.advance(milliseconds(300));
    settle();
  }
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, own_long_absence_is_not_taken_for_that_of_peers) {
  settle();
  clock_.advance(std::chrono::minutes(1));
  settle();
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, broken_way_is_told_once_and_a_new_one_works) {
  settle();
  network_.cut(near_.port, far_.port);
  settle();
  ASSERT_EQ(near_.events.losses.size(), 1U);
  remote_.reset();
  way_ = *near_.backend->connect(far_.self, far_.backend->connection_info());
  remote_ = *near_.backend->import_memory(*way_, far_.region(), far_.memory->key());
  post(TransferOp::write);
  settle();
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  EXPECT_TRUE(far_.pool == near_.pool);
}

TEST_P(MessageBackendTest, closing_backend_says_so) {
  settle();
  far_.operation.reset();
  far_.memory.reset();
  far_.backend.reset();
  near_.backend->progress();
  ASSERT_EQ(near_.events.losses.size(), 1U);
  EXPECT_NE(near_.events.losses.front().why.message().find("closed"), std::string_view::npos);
}

TEST_P(MessageBackendTest, notifications_wait_for_room_and_keep_their_order) {
  settle();
  far_.events.accept = 2;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(near_.backend->notify(*way_, as_bytes(std::to_string(i))).ok());
  settle();
  EXPECT_EQ(far_.events.notifications.size(), 2U);
  far_.events.accept = UINT64_MAX;
  settle();
  ASSERT_EQ(far_.events.notifications.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(far_.events.notifications[i].message, std::to_string(i));
    EXPECT_EQ(far_.events.notifications[i].from, near_.self);
  }
}

TEST_P(MessageBackendTest, notifications_that_overtook_others_are_put_in_order) {
  settle();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(near_.backend->notify(*way_, as_bytes(std::to_string(i))).ok());
  auto& arrived = network_.port(far_.port).arrived;
  ASSERT_EQ(arrived.size(), 3U);
  std::swap(arrived.front(), arrived.back());
  settle();
  ASSERT_EQ(far_.events.notifications.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(far_.events.notifications[i].message, std::to_string(i));
}

TEST_P(MessageBackendTest, sender_is_held_back_when_nobody_takes) {
  settle();
  far_.events.accept = 0;
  Status last;
  int sent = 0;
  for (; sent < 100'000; ++sent) {
    last = near_.backend->notify(*way_, as_bytes("x"));
    if (!last.ok()) break;
    turn();
  }
  EXPECT_EQ(last.code(), Code::exhausted);
  far_.events.accept = UINT64_MAX;
  settle();
  settle();
  EXPECT_TRUE(near_.backend->notify(*way_, as_bytes("again")).ok());
}

TEST_P(MessageBackendTest, garbage_changes_nothing) {
  settle();
  const auto before = far_.pool;
  std::uint64_t random = 1;
  for (int round = 0; round < 500; ++round) {
    Bytes bytes(static_cast<std::size_t>(round) % 200);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(
          (random = random * 6364136223846793005U + 1442695040888963407U) >> 56U);
    network_.send(far_.port, bytes);
  }
  settle();
  EXPECT_TRUE(far_.pool == before);
  post(TransferOp::write);
  settle();
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
}

TEST_P(MessageBackendTest, hostile_cards_are_refused) {
  EXPECT_FALSE(near_.backend->connect({"x", 1}, as_bytes("garbage")).ok());
  EXPECT_EQ(near_.backend->connect({"x", 1}, far_.backend->connection_info()).code(), Code::corrupt)
      << "another's info";
  EXPECT_EQ(near_.backend->connect({"x", 1}, near_.backend->connection_info()).code(),
            Code::corrupt);
  const Bytes key = far_.memory->key();
  EXPECT_FALSE(
      near_.backend->import_memory(*way_, far_.region(), ConstByteSpan(key).first(5)).ok());
  RegionDescriptor wider = far_.region();
  wider.length += 1;
  EXPECT_EQ(near_.backend->import_memory(*way_, wider, key).code(), Code::corrupt);
}

TEST_P(MessageBackendTest, key_that_lies_reaches_nothing_beyond_the_registration) {
  const std::uint64_t token = decode_key(far_.memory->key())->token;
  const Bytes lie = encode(MemoryKey{token, far_.region().address - 4096, kPool + 8192});
  RegionDescriptor beyond{.address = far_.region().address - 4096, .length = 64};
  auto imported = near_.backend->import_memory(*way_, beyond, lie);
  ASSERT_TRUE(imported.ok()) << "only the owner can know";
  segments_ = {{.local = near_.memory.get(),
                .remote = imported->get(),
                .local_address = near_.region().address,
                .remote_address = beyond.address,
                .length = 64}};
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    near_.operation->post({.op = op, .connection = way_.get(), .segments = segments_});
    settle();
    EXPECT_EQ(outcome().code(), Code::out_of_range);
  }
}

TEST_P(MessageBackendTest, parameters_without_sense_are_refused) {
  Registry registry;
  ASSERT_TRUE(registry.add(ucx_type()).ok());
  for (const Params& params : {Params{{"heartbeat_ms", "soon"}}, Params{{"timeout_ms", "0"}},
                               Params{{"timeout_ms", "300"}}, Params{{"settings", "X"}}}) {
    const auto opened = registry.open(
        "ucx", {.self = near_.self, .clock = &clock_, .events = &near_.events, .params = params});
    EXPECT_EQ(opened.code(), Code::invalid_argument) << params.begin()->first;
  }
}

}  // namespace
}  // namespace towpath::backends::messages
