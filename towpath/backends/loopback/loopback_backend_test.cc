#include <cstring>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::loopback {
namespace {

using namespace backend;
using backend::testing::RecordingEvents;

/// An agent as a backend sees it: an identity, a backend, memory.
struct Side {
  Side(const BackendType& type, const char* name) : self{name, 11} {
    bytes.resize(4 * kSliceBytes);
    std::iota(reinterpret_cast<std::uint8_t*>(bytes.data()),
              reinterpret_cast<std::uint8_t*>(bytes.data() + bytes.size()),
              static_cast<std::uint8_t>(name[0]));
    backend = *type.open({.self = self, .clock = &clock, .events = &events});
    region = {.address = address_of(bytes.data()), .length = bytes.size()};
    memory = *backend->register_memory(region);
  }
  bool readable() const {
    pollfd watched{backend->wait_fd(), POLLIN, 0};
    return poll(&watched, 1, 0) == 1;
  }
  void run() {
    while (backend->progress()) continue;
  }

  AgentIdentity self;
  sys::SystemClock clock;
  RecordingEvents events;
  Bytes bytes;
  RegionDescriptor region;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Memory> memory;
};

class LoopbackBackendTest : public ::testing::Test {
 protected:
  std::unique_ptr<Connection> connect(Side& from, Side& to) {
    auto connection = from.backend->connect(to.self, to.backend->connection_info());
    EXPECT_TRUE(connection.ok()) << connection.status().to_string();
    return *std::move(connection);
  }
  std::unique_ptr<Memory> import(Side& here, Connection& connection, Side& there) {
    auto memory = here.backend->import_memory(connection, there.region, there.memory->key());
    EXPECT_TRUE(memory.ok()) << memory.status().to_string();
    return *std::move(memory);
  }
  static Segment segment(Side& here, Memory& remote, Side& there, std::uint64_t length) {
    return {.local = here.memory.get(),
            .remote = &remote,
            .local_address = here.region.address,
            .remote_address = there.region.address,
            .length = length};
  }

  BackendType type_ = loopback_type();
  Side a_{type_, "a"};
  Side b_{type_, "b"};
};

TEST_F(LoopbackBackendTest, bytes_move_both_ways_between_agents) {
  const auto way = connect(a_, b_);
  const auto remote = import(a_, *way, b_);
  const auto operation = a_.backend->make_operation();
  const std::vector segments{segment(a_, *remote, b_, a_.bytes.size())};
  operation->post({TransferOp::read, way.get(), segments});
  EXPECT_EQ(a_.events.count(*operation), 0u);
  a_.run();
  EXPECT_TRUE(a_.events.last(*operation).status.ok());
  EXPECT_EQ(a_.events.last(*operation).bytes, a_.bytes.size());
  EXPECT_EQ(a_.bytes, b_.bytes);
  std::memset(a_.bytes.data(), 0x5a, 100);
  const std::vector back{segment(a_, *remote, b_, 100)};
  operation->post({TransferOp::write, way.get(), back});
  EXPECT_EQ(a_.events.count(*operation), 2u);
  EXPECT_EQ(a_.bytes, b_.bytes);
}

TEST_F(LoopbackBackendTest, agent_reaches_itself) {
  const auto way = connect(a_, a_);
  const auto remote = import(a_, *way, a_);
  const auto operation = a_.backend->make_operation();
  std::vector segments{segment(a_, *remote, a_, 64)};
  segments[0].remote_address += 4096 + 128;
  operation->post({TransferOp::read, way.get(), segments});
  EXPECT_TRUE(a_.events.last(*operation).status.ok());
  EXPECT_EQ(std::memcmp(a_.bytes.data(), a_.bytes.data() + 4096 + 128, 64), 0);
  ASSERT_TRUE(a_.backend->notify(*way, as_bytes("me")).ok());
  a_.run();
  ASSERT_EQ(a_.events.notifications.size(), 1u);
  EXPECT_EQ(a_.events.notifications[0].from, a_.self);
}

TEST_F(LoopbackBackendTest, kinds_without_addresses_and_empty_regions_are_refused) {
  EXPECT_EQ(a_.backend->register_memory({.kind = MemoryKind::disk, .length = 1}).code(),
            Code::unsupported);
  EXPECT_EQ(a_.backend->register_memory({.address = 4096}).code(), Code::invalid_argument);
  EXPECT_EQ(a_.backend->register_memory({.length = 4096}).code(), Code::invalid_argument);
  EXPECT_EQ(a_.backend->register_memory({.address = UINT64_MAX, .length = 2}).code(),
            Code::invalid_argument);
}

TEST_F(LoopbackBackendTest, info_of_others_is_refused_by_its_fault) {
  const Bytes good = b_.backend->connection_info();
  EXPECT_EQ(a_.backend->connect(b_.self, {}).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->connect({"c", 11}, good).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->connect({"b", 12}, good).code(), Code::corrupt);
  Side unauthenticated(loopback_type(), "s");
  EXPECT_EQ(
      a_.backend->connect(unauthenticated.self, unauthenticated.backend->connection_info()).code(),
      Code::unsupported);
}

TEST_F(LoopbackBackendTest, hostile_regions_and_keys_are_refused) {
  const auto way = connect(a_, b_);
  RegionDescriptor larger = b_.region;
  ++larger.length;
  RegionDescriptor other_kind = b_.region;
  other_kind.kind = MemoryKind::pinned;
  const Bytes key = b_.memory->key();
  EXPECT_EQ(a_.backend->import_memory(*way, larger, key).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->import_memory(*way, other_kind, key).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->import_memory(*way, b_.region, as_bytes("short")).code(), Code::corrupt);
  EXPECT_EQ(a_.backend->import_memory(*way, b_.region, as_bytes("12345678")).code(),
            Code::not_found);
}

TEST_F(LoopbackBackendTest, memory_taken_back_is_never_touched_again) {
  const auto way = connect(a_, b_);
  const auto remote = import(a_, *way, b_);
  const auto operation = a_.backend->make_operation();
  const std::vector segments{segment(a_, *remote, b_, 2 * kSliceBytes)};
  operation->post({TransferOp::read, way.get(), segments});
  b_.memory.reset();
  Bytes().swap(b_.bytes);  // ASan would report
  a_.run();
  const auto& end = a_.events.last(*operation);
  EXPECT_EQ(end.status.code(), Code::not_found);
  ASSERT_EQ(end.failures.size(), 1u);
  EXPECT_EQ(end.failures[0].bytes, kSliceBytes);
  EXPECT_TRUE(a_.events.losses.empty());
}

TEST_F(LoopbackBackendTest, peer_that_closes_is_lost_once_and_its_operations_end) {
  const auto way = connect(a_, b_);
  const auto own = connect(a_, a_);
  const auto remote = import(a_, *way, b_);
  const auto mine = import(a_, *own, a_);
  const auto doomed = a_.backend->make_operation();
  const auto other = a_.backend->make_operation();
  const std::vector segments{segment(a_, *remote, b_, 3 * kSliceBytes)};
  const std::vector own_segments{segment(a_, *mine, a_, 3 * kSliceBytes)};
  doomed->post({TransferOp::read, way.get(), segments});
  other->post({TransferOp::read, own.get(), own_segments});
  EXPECT_FALSE(a_.readable());
  b_.memory.reset();
  b_.backend.reset();
  EXPECT_TRUE(a_.readable());
  a_.run();
  EXPECT_FALSE(a_.readable());
  ASSERT_EQ(a_.events.losses.size(), 1u);
  EXPECT_EQ(a_.events.losses[0].connection, way.get());
  EXPECT_EQ(a_.events.last(*doomed).status.code(), Code::peer_lost);
  EXPECT_TRUE(a_.events.last(*other).status.ok());
  doomed->post({TransferOp::read, way.get(), segments});
  EXPECT_EQ(a_.events.last(*doomed).status.code(), Code::peer_lost);
  EXPECT_EQ(a_.backend->notify(*way, as_bytes("?")).code(), Code::peer_lost);
}

TEST_F(LoopbackBackendTest, notifications_arrive_in_order_and_wait_when_there_is_no_room) {
  const auto way = connect(a_, b_);
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(a_.backend->notify(*way, as_bytes(std::to_string(i))).ok());
  EXPECT_TRUE(b_.readable());
  b_.events.accept = 70;
  b_.run();
  EXPECT_EQ(b_.events.notifications.size(), 70u);
  EXPECT_FALSE(b_.backend->progress());
  b_.events.accept = UINT64_MAX;
  b_.run();
  ASSERT_EQ(b_.events.notifications.size(), 200u);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(b_.events.notifications[static_cast<std::size_t>(i)].message, std::to_string(i));
}

TEST_F(LoopbackBackendTest, notification_longer_than_the_limit_is_refused) {
  const auto way = connect(a_, b_);
  const Bytes largest(a_.backend->capabilities().max_notification_bytes);
  EXPECT_TRUE(a_.backend->notify(*way, largest).ok());
  const Bytes larger(largest.size() + 1);
  EXPECT_EQ(a_.backend->notify(*way, larger).code(), Code::invalid_argument);
}

TEST_F(LoopbackBackendTest, messages_of_a_sender_that_closed_still_arrive) {
  const auto way = connect(a_, b_);
  ASSERT_TRUE(a_.backend->notify(*way, as_bytes("bye")).ok());
  a_.memory.reset();
  a_.backend->progress();
  b_.run();
  EXPECT_EQ(b_.events.notifications.size(), 1u);
}

// The owner frees its memory while another thread copies: ASan and TSan are the judges.
TEST_F(LoopbackBackendTest, deregistering_races_with_copies_safely) {
  const auto way = connect(a_, b_);
  const auto remote = import(a_, *way, b_);
  std::thread copier([&] {
    const auto operation = a_.backend->make_operation();
    const std::vector segments{segment(a_, *remote, b_, 4 * kSliceBytes)};
    do {
      operation->post({TransferOp::read, way.get(), segments});
      a_.run();
    } while (a_.events.last(*operation).status.ok());
    EXPECT_EQ(a_.events.last(*operation).status.code(), Code::not_found);
  });
  std::this_thread::yield();
  b_.memory.reset();
  std::memset(b_.bytes.data(), 0, b_.bytes.size());
  Bytes().swap(b_.bytes);
  copier.join();
}

}  // namespace
}  // namespace towpath::backends::loopback
