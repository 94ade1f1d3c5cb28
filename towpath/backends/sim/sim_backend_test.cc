#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/sim/sim_backend.h>

namespace towpath::backends::sim {
namespace {

using namespace backend;
using backend::testing::RecordedCompletion;
using backend::testing::RecordingEvents;

constexpr std::uint64_t kSize = 64 * 1024;

struct Side {
  Side(const char* name, const std::shared_ptr<Network>& network)
      : self{name, 3}, bytes(kSize, std::byte(name[0])) {
    backend = *sim_type(network).open({.self = self, .events = &events});
    memory = *backend->register_memory(region());
  }
  RegionDescriptor region() const { return {.address = address_of(bytes.data()), .length = kSize}; }

  AgentIdentity self;
  RecordingEvents events;
  Bytes bytes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Memory> memory;
};

/// Two backends on one network, with a clock that stands still until it is moved.
struct Pair {
  explicit Pair(const Behaviour& behaviour, std::uint64_t seed = 1)
      : network(std::make_shared<Network>(seed, behaviour, clock)),
        a("a", network),
        b("b", network) {
    path = *a.backend->connect(b.self, b.backend->connection_info());
    remote = *a.backend->import_memory(*path, b.region(), b.memory->key());
    operation = a.backend->make_operation();
    segments = {{.local = a.memory.get(),
                 .remote = remote.get(),
                 .local_address = address_of(a.bytes.data()),
                 .remote_address = address_of(b.bytes.data()),
                 .length = 1024,
                 .count = 64,
                 .local_stride = 1024,
                 .remote_stride = 1024}};
  }
  ~Pair() {
    operation->cancel();
    a.backend->teardown(*path);
  }

  void post(TransferOp op) { operation->post({op, path.get(), segments}); }
  std::size_t ended() const { return a.events.count(*operation); }
  const RecordedCompletion& last() const { return a.events.last(*operation); }
  /// Lets `time` pass, handling all that happens meanwhile.
  void pass(Duration time) {
    const Instant end = clock.now() + time;
    while (true) {
      while (a.backend->progress() || b.backend->progress()) continue;
      const auto next = network->next_event();
      if (!next || *next > end) break;
      clock.advance(std::max(*next - clock.now(), Duration(0)));
    }
    clock.advance(std::max(end - clock.now(), Duration(0)));
  }

  ManualClock clock;
  std::shared_ptr<Network> network;
  Side a, b;
  std::unique_ptr<Connection> path;
  std::unique_ptr<Memory> remote;
  std::unique_ptr<Operation> operation;
  std::vector<Segment> segments;
};

constexpr Duration kLong = std::chrono::seconds(1);

TEST(SimBackendTest, calm_network_moves_all_bytes_and_keeps_messages_in_order) {
  Pair p({});
  p.post(TransferOp::read);
  p.pass(Duration(1));
  ASSERT_EQ(p.ended(), 1U);
  EXPECT_TRUE(p.last().status.ok());
  EXPECT_EQ(p.last().bytes, kSize);
  EXPECT_EQ(p.a.bytes, p.b.bytes);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(p.a.backend->notify(*p.path, as_bytes(std::to_string(i))).ok());
  p.pass(Duration(1));
  ASSERT_EQ(p.b.events.notifications.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_EQ(p.b.events.notifications[i].message, std::to_string(i));
}

TEST(SimBackendTest, same_seed_same_run) {
  const Behaviour wild{
      .longest_step = std::chrono::milliseconds(3), .tears = true, .eager = 100, .failing = 30};
  std::vector<std::string> runs;
  for (const std::uint64_t seed : {5U, 5U, 6U}) {
    Pair p(wild, seed);
    p.post(TransferOp::write);
    p.pass(kLong);
    ASSERT_EQ(p.ended(), 1U);
    runs.push_back(p.last().status.to_string() + std::to_string(p.last().bytes) +
                   std::to_string(p.network->counters().pieces));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(SimBackendTest, failures_name_exactly_what_is_not_in_place) {
  Pair p({.piece_bytes = 100, .tears = true, .failing = 50}, 9);
  p.post(TransferOp::read);
  p.pass(kLong);
  ASSERT_EQ(p.ended(), 1U);
  ASSERT_FALSE(p.last().failures.empty());
  Bytes expected(kSize, std::byte('b'));
  std::uint64_t in_place = kSize;
  for (const SegmentFailure& failure : p.last().failures) {
    const std::uint64_t missing = 1024 - failure.bytes;
    in_place -= missing;
    std::memset(expected.data() + failure.extent * 1024 + failure.bytes, 'a', missing);
  }
  EXPECT_EQ(p.a.bytes, expected);
  EXPECT_EQ(p.last().bytes, in_place);
}

TEST(SimBackendTest, silent_transfer_quiesces_as_declared) {
  Behaviour behaviour{.quiescence_bound = std::chrono::milliseconds(5), .silent = 1000};
  for (const Quiescence quiesced :
       {Quiescence::immediate, Quiescence::bounded, Quiescence::teardown, Quiescence::none}) {
    behaviour.quiesced = quiesced;
    Pair p(behaviour);
    EXPECT_EQ(p.a.backend->capabilities().quiesced, quiesced);
    p.post(TransferOp::read);
    p.pass(kLong);
    EXPECT_EQ(p.ended(), 0U) << "silent";
    p.operation->cancel();
    EXPECT_EQ(p.ended(), quiesced == Quiescence::immediate ? 1U : 0U);
    p.pass(kLong);
    const bool ended = quiesced == Quiescence::immediate || quiesced == Quiescence::bounded;
    EXPECT_EQ(p.ended(), ended ? 1U : 0U) << name_of(quiesced);
    p.a.backend->teardown(*p.path);
    EXPECT_EQ(p.ended(), 1U);
  }
}

TEST(SimBackendTest, bytes_land_after_a_cancel_that_is_not_immediate) {
  Pair p({.quiesced = Quiescence::teardown, .longest_step = std::chrono::milliseconds(1)});
  p.post(TransferOp::read);
  p.operation->cancel();
  std::memset(p.a.bytes.data(), 0, kSize);
  p.pass(kLong);
  EXPECT_EQ(p.a.bytes, p.b.bytes) << "the wire did not care";
}

TEST(SimBackendTest, lossy_network_drops_repeats_tears_and_reorders) {
  Pair p({.notifications = Notifications::lossy,
          .longest_way = std::chrono::milliseconds(1),
          .dropped = 200,
          .repeated = 200,
          .torn = 200});
  for (int i = 0; i < 500; ++i)
    ASSERT_TRUE(p.a.backend->notify(*p.path, as_bytes(std::to_string(10'000 + i))).ok());
  p.pass(kLong);
  const auto counters = p.network->counters();
  EXPECT_GT(counters.dropped, 50U);
  EXPECT_GT(counters.repeated, 50U);
  EXPECT_GT(counters.torn, 50U);
  std::vector<std::string> arrived;
  for (const auto& reported : p.b.events.notifications) arrived.push_back(reported.message);
  EXPECT_FALSE(std::is_sorted(arrived.begin(), arrived.end()));
}

TEST(SimBackendTest, parted_agents_wait_until_they_are_joined) {
  Pair p({});
  p.network->set_parted(p.a.self, p.b.self, true);
  p.post(TransferOp::read);
  ASSERT_TRUE(p.a.backend->notify(*p.path, as_bytes("x")).ok());
  p.pass(std::chrono::milliseconds(20));
  EXPECT_EQ(p.ended(), 0U);
  EXPECT_TRUE(p.b.events.notifications.empty());
  p.network->set_parted(p.b.self, p.a.self, false);
  p.pass(std::chrono::milliseconds(20));
  EXPECT_EQ(p.ended(), 1U);
  EXPECT_EQ(p.b.events.notifications.size(), 1U);
}

TEST(SimBackendTest, agent_that_is_cut_off_is_lost_once_and_its_memory_is_left_alone) {
  Pair p({.longest_step = std::chrono::milliseconds(1)});
  p.post(TransferOp::write);
  p.network->cut_off(p.b.self);
  p.b.bytes.assign(kSize, std::byte{0});
  p.pass(kLong);
  EXPECT_EQ(p.a.events.losses.size(), 1U);
  ASSERT_EQ(p.ended(), 1U);
  EXPECT_EQ(p.last().status.code(), Code::peer_lost);
  EXPECT_EQ(p.b.bytes, Bytes(kSize, std::byte{0}));
  EXPECT_EQ(p.a.backend->notify(*p.path, {}).code(), Code::peer_lost);
}

TEST(SimBackendTest, senders_are_held_back_when_nobody_takes) {
  Pair p({});
  p.b.events.accept = 3;
  Status last;
  int sent = 0;
  for (; last.ok(); ++sent) last = p.a.backend->notify(*p.path, {});
  EXPECT_EQ(last.code(), Code::exhausted);
  p.pass(Duration(1));
  EXPECT_EQ(p.b.events.notifications.size(), 3U);
  p.b.events.accept = UINT64_MAX;
  p.pass(Duration(1));
  EXPECT_EQ(p.b.events.notifications.size(), static_cast<std::size_t>(sent - 1));
}

TEST(SimBackendTest, what_is_imported_is_read_only_where_its_owner_says_so) {
  Pair p({});
  EXPECT_FALSE(p.remote->is_read_only);
  RegionDescriptor region = p.b.region();
  region.is_read_only = true;
  const auto memory = p.b.backend->register_memory(region);
  ASSERT_TRUE(memory.ok());
  const auto remote = p.a.backend->import_memory(*p.path, p.b.region(), (*memory)->key());
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  EXPECT_TRUE((*remote)->is_read_only);
}

TEST(SimBackendTest, what_comes_from_outside_is_checked) {
  Pair p({});
  EXPECT_EQ(p.a.backend->connect(p.b.self, as_bytes("x")).code(), Code::corrupt);
  EXPECT_EQ(p.a.backend->connect({"c", 1}, p.b.backend->connection_info()).code(), Code::corrupt);
  ManualClock clock;
  Side unauthenticated("s", std::make_shared<Network>(1, Behaviour(), clock));
  EXPECT_EQ(
      p.a.backend->connect(unauthenticated.self, unauthenticated.backend->connection_info()).code(),
      Code::unsupported);
  EXPECT_EQ(p.a.backend->import_memory(*p.path, p.b.region(), as_bytes("x")).code(), Code::corrupt);
  const Bytes unknown(8, std::byte{9});
  EXPECT_EQ(p.a.backend->import_memory(*p.path, p.b.region(), unknown).code(), Code::not_found);
  RegionDescriptor wide = p.b.region();
  wide.length += 1;
  EXPECT_EQ(p.a.backend->import_memory(*p.path, wide, p.b.memory->key()).code(), Code::corrupt);
  EXPECT_EQ(p.a.backend->register_memory({.kind = MemoryKind::disk, .length = 1}).code(),
            Code::unsupported);
  EXPECT_EQ(p.a.backend->notify(*p.path, Bytes(65537)).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::backends::sim
