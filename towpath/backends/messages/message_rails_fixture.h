// Two backends with several rails, over a network of the test's own, under a clock that only the
// test moves. Thread: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/net/messages/testing/rail_network.h>

namespace towpath::backends::messages {

inline constexpr Duration kTurn = std::chrono::milliseconds(1);

inline Carrier rail_carrier(net::testing::RailNetwork& network, std::size_t rails) {
  Carrier carrier;
  carrier.name = "ucx";
  carrier.path = "messages over rails of the test's";
  carrier.has_connections = true;
  carrier.rails = rails;
  carrier.make_worker =
      [&network](const backend::BackendContext&,
                 net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
    return network.open(kFrameBytes, listener);
  };
  return carrier;
}

/// A backend and memory.
struct RailSide {
  RailSide(net::testing::RailNetwork& network, const Clock& clock, const std::string& name,
           std::size_t rails, std::size_t pool_bytes)
      : self{name, 7}, pool(pool_bytes) {
    backend::Registry registry;
    EXPECT_TRUE(registry.add(message_type(rail_carrier(network, rails))).ok());
    auto opened = registry.open("UCX", {.self = self, .clock = &clock, .events = &events});
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    backend = *std::move(opened);
    memory = *backend->register_memory(region());
  }
  RegionDescriptor region() const {
    return {.address = address_of(pool.data()), .length = pool.size()};
  }
  void fill(std::uint64_t seed) { fill_with_random_bytes(pool, seed); }

  AgentIdentity self;
  ::towpath::backend::testing::RecordingEvents events;
  std::vector<std::byte> pool;
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<backend::Memory> memory;
};

/// `near` uses the memory of `far`.
class RailPair {
 public:
  RailPair(std::size_t path_count, std::size_t rails, std::size_t pool_bytes,
           std::uint64_t seed = 1)
      : network(path_count),
        near(network, clock, "near", rails, pool_bytes),
        far(network, clock, "far", 1, pool_bytes) {
    network.seed(seed);
    way = near.backend->connect(far.self, far.backend->connection_info()).value();
    remote = near.backend->import_memory(*way, far.region(), far.memory->key()).value();
    operation = near.backend->make_operation();
    near.fill(seed + 1);
    far.fill(seed + 2);
  }
  void turn(Duration time = kTurn) {
    near.backend->progress();
    far.backend->progress();
    clock.advance(time);
  }
  /// Until then, or so many turns.
  template <typename Condition>
  bool run_until(Condition condition, int turns = 20'000, Duration time = kTurn) {
    for (int i = 0; i < turns && !condition(); ++i) turn(time);
    return condition();
  }
  void settle(int turns = 200) {
    for (int i = 0; i < turns; ++i) turn(Duration::zero());
  }
  void post(TransferOp op, std::uint64_t offset = 0, std::uint64_t length = 0) {
    if (length == 0) length = near.pool.size();
    segments = {{.local = near.memory.get(),
                 .remote = remote.get(),
                 .local_address = near.region().address + offset,
                 .remote_address = far.region().address + offset,
                 .length = length}};
    operation->post({.op = op, .connection = way.get(), .segments = segments});
  }
  std::size_t done() const { return near.events.count(*operation); }
  const Status& outcome() const { return near.events.last(*operation).status; }
  /// That both sides have, over which messages may go.
  std::size_t rails_up() const {
    std::size_t up = 0;
    for (const auto& [number, one] : network.connections)
      up += one.is_taken && one.dialler_owner != nullptr && one.listener_owner != nullptr ? 1 : 0;
    return up;
  }

  ManualClock clock;
  net::testing::RailNetwork network;
  RailSide near, far;
  std::unique_ptr<backend::Connection> way;
  std::unique_ptr<backend::Memory> remote;
  std::unique_ptr<backend::Operation> operation;
  std::vector<backend::Segment> segments;
};

}  // namespace towpath::backends::messages
