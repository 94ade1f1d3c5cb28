// Two backends on a network of the test's own, under a clock that only the test moves.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/net/messages/testing/fake_network.h>

namespace towpath::backends::messages {

constexpr std::size_t kPool = 4 * kPayloadBytes;

inline Carrier carrier_of(net::testing::FakeNetwork& network, bool takes_devices = false,
                          std::size_t most_accepted = 4096) {
  Carrier carrier;
  carrier.most_accepted = most_accepted;
  carrier.takes_devices = takes_devices;
  carrier.name = "ucx";
  carrier.path = "messages over a network of the test's";
  carrier.make_worker =
      [&network](const backend::BackendContext&,
                 net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
    return network.open(kFrameBytes, listener);
  };
  return carrier;
}

/// A backend and memory.
struct Side {
  Side(net::testing::FakeNetwork& network, const Clock& clock, const std::string& name,
       bool takes_devices = false, const ::towpath::backend::Params& params = {},
       std::size_t most_accepted = 4096)
      : self{name, 7}, pool(kPool) {
    const auto open_cuda = []() -> Result<std::shared_ptr<device::Driver>> {
      TOWPATH_TRY(auto driver,
                  device::CudaDriver::open({.library = device::testing::FakeCuda::path()}));
      return std::shared_ptr<device::Driver>(std::move(driver));
    };
    backend::Registry registry;
    EXPECT_TRUE(registry
                    .add(message_type(carrier_of(network, takes_devices, most_accepted),
                                      {.open = open_cuda}))
                    .ok());
    auto opened =
        registry.open("UCX", {.self = self, .clock = &clock, .events = &events, .params = params});
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    backend = *std::move(opened);
    port = network.last();
    memory = *backend->register_memory(region());
    operation = backend->make_operation();
  }
  RegionDescriptor region() const { return {.address = address_of(pool.data()), .length = kPool}; }
  void fill(int seed) { fill_with_random_bytes(pool, static_cast<std::uint64_t>(seed)); }

  AgentIdentity self;
  ::towpath::backend::testing::RecordingEvents events;
  std::vector<std::byte> pool;
  std::uint64_t port = 0;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Memory> memory;
  std::unique_ptr<backend::Operation> operation;
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
    auto path = near_.backend->connect(far_.self, far_.backend->connection_info());
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    way_ = *std::move(path);
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
  /// One extent of all bytes.
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
  std::unique_ptr<backend::Connection> way_;
  std::unique_ptr<backend::Memory> remote_;
  std::vector<backend::Segment> segments_;
};

inline constexpr auto kBothWays = [](const auto& bodies) {
  return bodies.param == Bodies::whole ? "whole" : "streamed";
};

}  // namespace towpath::backends::messages
