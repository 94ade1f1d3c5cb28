// What holds whatever carries the messages.
#include <algorithm>
#include <numeric>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/message_backend_fixture.h>
#include <towpath/core/testing/random_bytes.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using std::chrono::milliseconds;

INSTANTIATE_TEST_SUITE_P(Bodies, MessageBackendTest,
                         ::testing::Values(Bodies::whole, Bodies::streamed), kBothWays);

TEST_P(MessageBackendTest, bytes_move_both_ways) {
  const auto near_before = near_.pool;
  post(TransferOp::write);
  settle();
  ASSERT_EQ(done(), 1U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  EXPECT_TRUE(are_same_bytes(far_.pool, near_before));
  far_.fill(3);
  post(TransferOp::read);
  settle();
  ASSERT_EQ(done(), 2U);
  EXPECT_TRUE(are_same_bytes(near_.pool, far_.pool));
  EXPECT_EQ(near_.events.last(*near_.operation).bytes, kPool);
}

TEST_P(MessageBackendTest, strided_extents_stay_one_value_on_the_wire) {
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
  EXPECT_EQ(message.head.size(), kHeaderBytes + kPieceBytes + net::kSealBytes);
  EXPECT_EQ(message.body.size(), 16 * kCount);
  auto expected = far_.pool;
  for (std::uint64_t i = 0; i < kCount; ++i)
    std::copy_n(near_.pool.begin() + 3 + static_cast<std::ptrdiff_t>(i) * 64, 16,
                expected.begin() + 5 + static_cast<std::ptrdiff_t>(i) * 48);
  settle();
  EXPECT_TRUE(are_same_bytes(far_.pool, expected));
}

// The promise of the lease: breaks when answer() places under any grant.
TEST_P(MessageBackendTest, late_bytes_of_a_stopped_owner_never_land) {
  settle();
  network_.port(far_.port).stopped = true;
  post(TransferOp::write);
  near_.backend->progress();
  near_.operation->cancel();
  EXPECT_EQ(done(), 0U) << "its bytes may still land";
  clock_.advance(near_.backend->capabilities().quiescence_bound + milliseconds(1));
  near_.backend->progress();
  ASSERT_EQ(done(), 1U);
  EXPECT_EQ(outcome().code(), Code::cancelled);
  const auto before = far_.pool;
  network_.port(far_.port).stopped = false;
  settle();
  EXPECT_TRUE(are_same_bytes(far_.pool, before)) << "a byte landed after the end";
  EXPECT_TRUE(near_.events.losses.empty());
}

// The owner would take a grant of eight seconds, the writer counts on one.
TEST_P(MessageBackendTest, late_bytes_never_land_at_an_owner_with_other_heartbeats) {
  Side slow(network_, clock_, "slow", false, {{"heartbeat_ms", "2000"}, {"timeout_ms", "8000"}});
  const auto path = near_.backend->connect(slow.self, slow.backend->connection_info()).value();
  const auto remote =
      near_.backend->import_memory(*path, slow.region(), slow.memory->key()).value();
  const auto settle_both = [&] {
    for (int i = 0; i < 100; ++i) near_.backend->progress(), slow.backend->progress();
  };
  const auto post_to_slow = [&] {
    segments_ = {{.local = near_.memory.get(),
                  .remote = remote.get(),
                  .local_address = near_.region().address,
                  .remote_address = slow.region().address,
                  .length = kPool}};
    near_.operation->post(
        {.op = TransferOp::write, .connection = path.get(), .segments = segments_});
  };
  settle_both();
  network_.port(slow.port).stopped = true;
  const auto before = slow.pool;
  post_to_slow();
  near_.backend->progress();
  near_.operation->cancel();
  clock_.advance(near_.backend->capabilities().quiescence_bound + milliseconds(1));
  near_.backend->progress();
  ASSERT_EQ(done(), 1U);
  network_.port(slow.port).stopped = false;
  settle_both();
  EXPECT_TRUE(are_same_bytes(slow.pool, before)) << "a byte landed after the end";
  post_to_slow();
  settle_both();
  EXPECT_TRUE(are_same_bytes(slow.pool, near_.pool));
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
  EXPECT_TRUE(are_same_bytes(far_.pool, near_.pool));
}

TEST_P(MessageBackendTest, cancelled_read_is_quiesced_at_once) {
  settle();
  post(TransferOp::read);
  far_.backend->progress();  // the answers are on their way
  near_.operation->cancel();
  ASSERT_EQ(done(), 1U);
  const auto before = near_.pool;
  settle();
  EXPECT_TRUE(are_same_bytes(near_.pool, before));
  EXPECT_EQ(done(), 1U);
}

TEST_P(MessageBackendTest, what_has_completed_is_not_cancelled_while_another_is_reported) {
  settle();
  const auto other = near_.backend->make_operation();
  segments_ = {{.local = near_.memory.get(),
                .remote = remote_.get(),
                .local_address = near_.region().address,
                .remote_address = far_.region().address,
                .length = 64}};
  const Request request{.op = TransferOp::read, .connection = way_.get(), .segments = segments_};
  near_.operation->post(request);
  other->post(request);
  near_.events.after_complete = [&](Operation&) { near_.operation->cancel(), other->cancel(); };
  far_.backend->progress();
  near_.backend->progress();  // both answers
  near_.events.after_complete = nullptr;
  ASSERT_EQ(done(), 1U);
  ASSERT_EQ(near_.events.count(*other), 1U);
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
  const auto& second = near_.events.last(*other);
  EXPECT_TRUE(second.status.ok()) << second.status.to_string();
  EXPECT_EQ(second.bytes, 64U);
}

// In the midst of a frame, and what it would go on to is gone: AddressSanitizer watches.
TEST_P(MessageBackendTest, read_that_is_cancelled_while_its_bytes_come_looks_at_nothing_any_more) {
  settle();
  constexpr std::uint64_t kExtent = 48 * 1024;
  segments_ = {{.local = near_.memory.get(),
                .remote = remote_.get(),
                .local_address = near_.region().address,
                .remote_address = far_.region().address,
                .length = kExtent,
                .count = 8,
                .local_stride = 2 * kExtent,
                .remote_stride = kExtent}};
  near_.operation->post({.op = TransferOp::read, .connection = way_.get(), .segments = segments_});
  far_.backend->progress();
  network_.body_step = std::min<std::size_t>(network_.body_step, 20'000);
  near_.backend->progress();
  near_.operation->cancel();
  ASSERT_EQ(done(), 1U);
  near_.operation.reset();
  segments_ = {};
  std::ranges::fill(near_.pool, std::byte{9});
  settle();
  EXPECT_EQ(std::ranges::count(near_.pool, std::byte{9}), std::ptrdiff_t{kPool});
  near_.operation = near_.backend->make_operation();
}

TEST_P(MessageBackendTest, what_of_a_write_has_not_left_is_copied_when_it_is_stopped) {
  settle();
  post(TransferOp::write);
  near_.operation->cancel();
  const auto before = near_.pool;
  std::ranges::fill(near_.pool, std::byte{9});
  std::size_t at = 0;
  for (const auto& message : network_.port(far_.port).arrived) {
    ASSERT_EQ(message.rest, nullptr) << "somebody still looks at the memory";
    ASSERT_EQ(message.body.size(), kPayloadBytes);
    EXPECT_TRUE(std::equal(message.body.begin(), message.body.end(),
                           before.begin() + static_cast<std::ptrdiff_t>(at)));
    at += message.body.size();
  }
  EXPECT_GT(at, 0U);
  clock_.advance(near_.backend->capabilities().quiescence_bound + milliseconds(1));
  settle();
  EXPECT_EQ(done(), 1U);
}

TEST_P(MessageBackendTest, memory_that_was_taken_back_fails_and_the_peer_stays) {
  far_.memory.reset();
  const auto before = far_.pool;
  for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
    post(op);
    settle();
    EXPECT_EQ(outcome().code(), Code::not_found);
    const auto& reported = near_.events.last(*near_.operation);
    ASSERT_EQ(reported.failures.size(), 1U) << "one extent, though it went in several frames";
    EXPECT_EQ(reported.failures.front().bytes, 0U);
    EXPECT_EQ(reported.bytes, 0U);
  }
  EXPECT_TRUE(are_same_bytes(far_.pool, before));
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

// Breaks when a way is begun anew over what the peer has let go already.
TEST_P(MessageBackendTest, way_that_nobody_used_for_long_is_made_anew) {
  for (int i = 0; i < 5; ++i) clock_.advance(milliseconds(300)), settle();
  remote_.reset();
  way_.reset();
  for (int i = 0; i < 5; ++i) clock_.advance(milliseconds(300)), settle();
  for (int i = 0; i < 30; ++i) clock_.advance(milliseconds(300)), far_.backend->progress();
  near_.backend->progress();
  way_ = near_.backend->connect(far_.self, far_.backend->connection_info()).value();
  settle();
  ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("again")).ok());
  settle();
  EXPECT_EQ(far_.events.notifications.size(), 1U);
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, own_long_absence_is_not_taken_for_that_of_peers) {
  settle();
  clock_.advance(std::chrono::minutes(1));
  settle();
  EXPECT_TRUE(near_.events.losses.empty());
}

TEST_P(MessageBackendTest, broken_way_is_reported_once_and_a_new_one_works) {
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
  EXPECT_TRUE(are_same_bytes(far_.pool, near_.pool));
}

// The frame was numbered, and the peer would miss it.
TEST_P(MessageBackendTest, carrier_without_memory_ends_the_session_and_its_transfers) {
  settle();
  for (const TransferOp op : {TransferOp::write, TransferOp::read}) {
    network_.has_no_memory = op == TransferOp::write;
    post(op);
    settle();
    clock_.advance(std::chrono::seconds(2));  // no byte of a write may still land
    settle();
    EXPECT_EQ(done(), op == TransferOp::write ? 1U : 2U);
    EXPECT_EQ(outcome().code(), Code::peer_lost) << outcome().to_string();
  }
  EXPECT_EQ(near_.events.losses.size(), 1U);
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

TEST_P(MessageBackendTest, what_a_peer_said_before_it_closed_is_heard) {
  settle();
  for (const bool is_connected : {true, false}) {
    Side third(network_, clock_, "third");
    auto way = *third.backend->connect(far_.self, far_.backend->connection_info());
    const auto back = is_connected
                          ? *far_.backend->connect(third.self, third.backend->connection_info())
                          : nullptr;
    for (int i = 0; i < 10; ++i) third.backend->progress(), far_.backend->progress();
    far_.events.notifications.clear();
    ASSERT_TRUE(third.backend->notify(*way, as_bytes("taken")).ok());
    way.reset();
    third.operation.reset();
    third.memory.reset();
    third.backend.reset();
    settle();
    ASSERT_EQ(far_.events.notifications.size(), 1U) << is_connected;
    EXPECT_EQ(far_.events.notifications.front().message, "taken");
    EXPECT_EQ(far_.events.losses.size(), is_connected ? 1U : 0U);
    far_.events.losses.clear();
  }
}

TEST_P(MessageBackendTest, loss_waits_until_what_came_before_it_was_taken) {
  settle();
  const auto back = *far_.backend->connect(near_.self, near_.backend->connection_info());
  settle();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(near_.backend->notify(*way_, as_bytes(std::to_string(i))).ok());
  far_.events.accept = 1;
  settle();
  network_.cut(near_.port, far_.port);
  settle();
  EXPECT_EQ(far_.events.notifications.size(), 1U);
  EXPECT_TRUE(far_.events.losses.empty()) << "before what the peer said";
  EXPECT_EQ(far_.backend->notify(*back, as_bytes("x")).code(), Code::peer_lost);
  far_.events.accept = UINT64_MAX;
  settle();
  ASSERT_EQ(far_.events.notifications.size(), 3U);
  EXPECT_EQ(far_.events.notifications[2].message, "2");
  EXPECT_EQ(far_.events.losses.size(), 1U);
}

TEST_P(MessageBackendTest, loss_is_reported_though_nobody_takes_what_came_before_it) {
  settle();
  auto back = *far_.backend->connect(near_.self, near_.backend->connection_info());
  settle();
  ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("late")).ok());
  far_.events.accept = 0;
  settle();
  network_.cut(near_.port, far_.port);
  for (int i = 0; i < 25; ++i) clock_.advance(milliseconds(250)), settle();
  EXPECT_EQ(far_.events.losses.size(), 1U);
  back.reset();
  far_.events.accept = UINT64_MAX;
  settle();
  ASSERT_EQ(far_.events.notifications.size(), 1U) << "it was never lost";
  EXPECT_EQ(far_.events.losses.size(), 1U);
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
  for (std::uint64_t round = 0; round < 500; ++round)
    network_.send(far_.port, random_bytes(round, round % 200));
  settle();
  EXPECT_TRUE(are_same_bytes(far_.pool, before));
  post(TransferOp::write);
  settle();
  EXPECT_TRUE(outcome().ok()) << outcome().to_string();
}

TEST_P(MessageBackendTest, hostile_metadata_are_refused) {
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
