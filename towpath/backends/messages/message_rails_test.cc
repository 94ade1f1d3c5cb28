// What becomes of transfers and notifications while rails break, stall and come back.
#include <algorithm>
#include <optional>
#include <string>

#include <towpath/backends/messages/message_rails_fixture.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using std::chrono::milliseconds;

constexpr std::size_t kRailPool = 4 * 1024 * 1024;

class MessageRailsTest : public ::testing::TestWithParam<TransferOp> {
 protected:
  void open(std::size_t rails = 2, std::size_t path_count = 2) {
    pair_.emplace(path_count, rails, kRailPool);
    pair_->network.step = 40'000;
    ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == rails; }));
    pair_->settle();
    // So that both are known.
    post_and_wait();
    pair_->near.fill(8);
    pair_->far.fill(9);
  }
  void post_and_wait() {
    const std::size_t before = pair_->done();
    pair_->post(GetParam());
    ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before; }));
    ASSERT_TRUE(pair_->outcome().ok()) << pair_->outcome().to_string();
    expect_equal();
  }
  void expect_equal() { EXPECT_TRUE(are_same_bytes(pair_->near.pool, pair_->far.pool)); }
  /// In the midst of a transfer, with some under way over both.
  void begin() {
    pair_->network.moved.clear();
    before_ = pair_->done();
    near_before_ = pair_->near.pool;
    far_before_ = pair_->far.pool;
    pair_->post(GetParam());
    ASSERT_TRUE(pair_->run_until(
        [&] { return pair_->network.moved[0] > 60'000 && pair_->network.moved[1] > 60'000; }));
    ASSERT_EQ(pair_->done(), before_);
  }
  void expect_done() {
    ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before_; }));
    EXPECT_TRUE(pair_->outcome().ok()) << pair_->outcome().to_string();
    EXPECT_EQ(pair_->done(), before_ + 1);
    EXPECT_EQ(pair_->near.events.last(*pair_->operation).bytes, kRailPool);
    EXPECT_TRUE(are_same_bytes(pair_->near.pool, pair_->far.pool));
    EXPECT_TRUE(are_same_bytes(pair_->near.pool,
                               GetParam() == TransferOp::write ? near_before_ : far_before_));
    EXPECT_TRUE(pair_->near.events.losses.empty());
  }

  std::optional<RailPair> pair_;
  std::size_t before_ = 0;
  std::vector<std::byte> near_before_, far_before_;
};

INSTANTIATE_TEST_SUITE_P(Op, MessageRailsTest,
                         ::testing::Values(TransferOp::read, TransferOp::write),
                         [](const auto& op) {
                           return op.param == TransferOp::read ? "read" : "write";
                         });

TEST_P(MessageRailsTest, slices_go_over_both) {
  open();
  begin();
  expect_done();
  EXPECT_GT(pair_->network.moved[0], kRailPool / 4);
  EXPECT_GT(pair_->network.moved[1], kRailPool / 4);
}

TEST_P(MessageRailsTest, report_names_them) {
  open();
  const auto describe = [&] {
    return pair_->near.backend->describe_path(*pair_->near.memory, *pair_->remote);
  };
  EXPECT_NE(describe().find("; rails: 0, 1"), std::string::npos) << describe();
  pair_->network.cut(1);
  pair_->turn();
  EXPECT_NE(describe().find("; rails: 0, 1 (down)"), std::string::npos) << describe();
}

TEST_P(MessageRailsTest, slower_one_takes_less) {
  open();
  pair_->network.paths[1].one_in = 10;
  post_and_wait();  // that it became slow is a reason to leave it; that it is, is none
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 2; }));
  post_and_wait();
  pair_->network.moved.clear();
  for (int i = 0; i < 4; ++i) post_and_wait();
  EXPECT_GT(pair_->network.moved[0], 2 * pair_->network.moved[1]);
  EXPECT_GT(pair_->network.moved[1], kRailPool / 100);
}

// Breaks when the rail with the shortest slice is asked first, refuses since the others are faster,
// and nobody else is asked.
TEST_P(MessageRailsTest, short_transfers_end_beside_a_slow_one) {
  for (const std::size_t path : {0U, 1U}) {
    open();
    pair_->network.paths[path].one_in = 10;
    post_and_wait();
    ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 2; }));
    for (int i = 0; i < 3; ++i) post_and_wait();
    for (std::uint64_t bytes = 1000; bytes < kRailPool; bytes = bytes * 5 / 4) {
      const std::size_t before = pair_->done();
      pair_->post(GetParam(), 0, bytes);
      ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before; }, 2000)) << bytes;
    }
  }
}

TEST_P(MessageRailsTest, several_go_over_one_path_where_there_is_one) {
  open(3, 1);
  EXPECT_EQ(pair_->network.connections.size(), 3U);
  post_and_wait();
}

TEST_P(MessageRailsTest, what_a_broken_one_loses_goes_again) {
  for (const std::size_t path : {0U, 1U}) {
    open();
    begin();
    pair_->network.cut(path);
    expect_done();
  }
}

TEST_P(MessageRailsTest, one_that_falls_silent_is_left_in_milliseconds) {
  for (const std::size_t path : {0U, 1U}) {
    open();
    begin();
    pair_->network.paths[path].is_dead = true;
    const Instant since = pair_->clock.now();
    expect_done();
    EXPECT_LT(pair_->clock.now() - since, std::chrono::seconds(2)) << "in turns of this network";
  }
}

TEST_P(MessageRailsTest, small_transfer_does_not_wait_for_a_silent_one) {
  open();
  pair_->network.paths[0].is_dead = pair_->network.paths[1].is_dead = false;
  for (int i = 0; i < 4; ++i) {
    pair_->network.paths[0].is_dead = true;
    const std::size_t before = pair_->done();
    const Instant since = pair_->clock.now();
    pair_->post(GetParam(), 4096 * static_cast<std::uint64_t>(i), 4096);
    ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before; }));
    EXPECT_TRUE(pair_->outcome().ok()) << pair_->outcome().to_string();
    EXPECT_LT(pair_->clock.now() - since, milliseconds(200));
  }
}

// Breaks when what a rail that was left had under way is written again before the fence is
// answered.
TEST_P(MessageRailsTest, write_goes_again_behind_the_answer_to_its_fence) {
  open(3, 3);
  begin();
  pair_->network.paths[2].is_held = true;
  // The fence goes over the first one, which stands still when it is sent.
  while (pair_->rails_up() == 3) {
    pair_->far.backend->progress();
    pair_->clock.advance(kTurn);
    pair_->near.backend->progress();
  }
  pair_->network.paths[0].is_held = true;
  const bool ended = pair_->run_until([&] { return pair_->done() > before_; }, 60);
  EXPECT_TRUE(!ended || GetParam() == TransferOp::read);
  pair_->network.paths[0].is_held = false;
  expect_done();
}

// Breaks when the owner places the rest of a frame of a session that it has ended.
TEST_P(MessageRailsTest, owner_places_nothing_behind_its_answer_to_a_fence) {
  std::size_t checked = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    open();
    pair_->network.seed(seed);
    begin();
    pair_->network.paths[1].is_held = true;
    while (pair_->rails_up() == 2) {
      pair_->far.backend->progress();
      pair_->clock.advance(kTurn);
      pair_->near.backend->progress();
    }
    pair_->network.paths[1].is_held = false;
    std::optional<std::vector<std::byte>> fenced;
    pair_->network.after_head = [&](ConstByteSpan head) {
      if (head[4] == static_cast<std::byte>(FrameKind::fence)) fenced = pair_->far.pool;
    };
    pair_->network.moved.clear();
    for (int turn = 0; turn < 4 && !fenced; ++turn) pair_->far.backend->progress();
    pair_->network.after_head = nullptr;
    if (fenced) {
      ++checked;
      EXPECT_TRUE(are_same_bytes(pair_->far.pool, *fenced)) << seed;
    }
    expect_done();
  }
  EXPECT_GT(checked, 3U);
}

// Breaks when what a rail that was left had under way is written again without a fence, and when
// the owner places the rest of a frame of a session that it has ended.
TEST_P(MessageRailsTest, no_late_byte_of_one_that_was_left_lands) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    open();
    pair_->network.seed(seed);
    begin();
    pair_->network.paths[1].is_held = true;
    expect_done();
    pair_->near.fill(77);
    pair_->far.fill(78);
    const auto near_after = pair_->near.pool;
    const auto far_after = pair_->far.pool;
    pair_->network.paths[1].is_held = false;
    pair_->settle(500);
    ASSERT_TRUE(are_same_bytes(pair_->near.pool, near_after)) << seed;
    ASSERT_TRUE(are_same_bytes(pair_->far.pool, far_after)) << seed;
  }
}

TEST_P(MessageRailsTest, fence_that_nobody_answers_is_replaced_by_the_end_of_the_grant) {
  open();
  begin();
  pair_->network.paths[1].is_dead = true;
  // It is left, and then the other stands still too, for longer than a grant.
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 1; }));
  pair_->network.paths[0].is_held = true;
  pair_->run_until([] { return false; }, 12, milliseconds(100));
  pair_->network.paths[0].is_held = false;
  expect_done();
}

TEST_P(MessageRailsTest, nothing_is_left_while_the_owner_is_stopped) {
  open();
  for (int round = 0; round < 5; ++round) {
    begin();
    for (int i = 0; i < 700; ++i) {  // below the timeout
      pair_->near.backend->progress();
      pair_->clock.advance(milliseconds(4));
    }
    expect_done();
    EXPECT_EQ(pair_->network.connections.size(), 2U) << "one was left and dialled again";
    pair_->near.fill(static_cast<std::uint64_t>(round) + 20);
  }
}

TEST_P(MessageRailsTest, nothing_is_left_after_a_long_absence_of_this_side) {
  open();
  for (int round = 0; round < 5; ++round) {
    begin();
    for (int i = 0; i < 100; ++i) pair_->far.backend->progress();
    pair_->clock.advance(std::chrono::seconds(3));
    expect_done();
    EXPECT_EQ(pair_->network.connections.size(), 2U) << "one was left and dialled again";
    pair_->near.fill(static_cast<std::uint64_t>(round) + 20);
  }
}

TEST_P(MessageRailsTest, nothing_is_left_while_all_are_slow) {
  open();
  begin();
  for (auto& path : pair_->network.paths) path.one_in = 10;
  expect_done();
  EXPECT_LE(pair_->network.connections.size(), 3U);
}

TEST_P(MessageRailsTest, one_that_was_left_is_dialled_again_and_used) {
  open();
  begin();
  pair_->network.paths[1].is_dead = true;
  expect_done();
  pair_->network.paths[1].is_dead = false;
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 2; }));
  pair_->settle();
  pair_->network.moved.clear();
  for (int i = 0; i < 3; ++i) post_and_wait();
  EXPECT_GT(pair_->network.moved[1], kRailPool / 4);
}

TEST_P(MessageRailsTest, one_that_cannot_be_dialled_is_no_error) {
  pair_.emplace(3, 3, kRailPool);
  pair_->network.paths[1].refuses = true;
  pair_->network.paths[2].is_dead = true;
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 1; }));
  post_and_wait();
  pair_->run_until([] { return false; }, 1000, milliseconds(20));  // 20 s
  EXPECT_TRUE(pair_->near.events.losses.empty());
  EXPECT_LT(pair_->network.connections.size(), 12U) << "it is tried too often";
  pair_->network.paths[1].refuses = pair_->network.paths[2].is_dead = false;
  EXPECT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 3; }));
}

TEST_P(MessageRailsTest, peer_is_lost_with_its_last_one) {
  open();
  begin();
  pair_->network.cut(0);
  pair_->network.cut(1);
  ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before_; }));
  EXPECT_EQ(pair_->outcome().code(), Code::peer_lost);
  EXPECT_EQ(pair_->near.events.losses.size(), 1U);
  EXPECT_EQ(pair_->near.backend->notify(*pair_->way, as_bytes("x")).code(), Code::peer_lost);
}

TEST_P(MessageRailsTest, peer_that_closes_is_lost_at_once) {
  open();
  begin();
  pair_->far.memory.reset();
  pair_->far.backend.reset();
  for (int i = 0; i < 100; ++i) pair_->near.backend->progress();
  EXPECT_EQ(pair_->near.events.losses.size(), 1U);
  pair_->clock.advance(std::chrono::seconds(2));
  pair_->near.backend->progress();
  EXPECT_EQ(pair_->outcome().code(), Code::peer_lost);
}

TEST_P(MessageRailsTest, transfer_that_is_stopped_while_a_rail_is_left_ends_once) {
  open();
  begin();
  pair_->network.paths[1].is_held = true;
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 1; }));
  pair_->operation->cancel();
  ASSERT_TRUE(pair_->run_until([&] { return pair_->done() > before_; }));
  EXPECT_EQ(pair_->outcome().code(), Code::cancelled);
  const auto far_after = pair_->far.pool;
  const auto near_after = pair_->near.pool;
  pair_->network.paths[1].is_held = false;
  pair_->settle(500);
  EXPECT_TRUE(are_same_bytes(pair_->far.pool, far_after));
  EXPECT_TRUE(are_same_bytes(pair_->near.pool, near_after));
  EXPECT_EQ(pair_->done(), before_ + 1);
}

TEST_P(MessageRailsTest, notifications_move_with_none_lost_or_doubled) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    open();
    pair_->network.seed(seed);
    std::size_t sent = 0;
    const auto send = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i, ++sent)
        ASSERT_TRUE(pair_->near.backend->notify(*pair_->way, as_bytes(std::to_string(sent))).ok());
    };
    send(10);
    pair_->settle(static_cast<int>(seed));
    send(5);
    if (seed % 2 == 0) pair_->network.cut(0);
    pair_->network.paths[0].is_held = true;
    pair_->post(GetParam());
    pair_->run_until([&] { return pair_->rails_up() == 1; }, 300);
    send(5);
    pair_->network.paths[0].is_held = false;
    ASSERT_TRUE(pair_->run_until([&] { return pair_->far.events.notifications.size() >= 20; }));
    pair_->settle(500);
    ASSERT_EQ(pair_->far.events.notifications.size(), 20U) << seed;
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_EQ(pair_->far.events.notifications[i].message, std::to_string(i)) << seed;
    EXPECT_TRUE(pair_->far.events.losses.empty());
    // The sender is not held back: all were answered for.
    for (std::size_t i = 0; i < 1024; ++i)
      ASSERT_TRUE(pair_->near.backend->notify(*pair_->way, as_bytes("y")).ok()) << i;
  }
}

// Breaks when the farewell over one rail ends the others, over which it has not come yet; or when
// they are written to: a kernel whose socket is closed would drop what it has not delivered.
TEST_P(MessageRailsTest, notification_over_a_slower_rail_comes_before_the_end_of_its_sender) {
  open();
  pair_->network.paths[0].is_held = true;
  ASSERT_TRUE(pair_->near.backend->notify(*pair_->way, as_bytes("the last")).ok());
  pair_->operation.reset();
  pair_->remote.reset();
  pair_->way.reset();
  pair_->near.memory.reset();
  pair_->near.backend.reset();
  for (int i = 0; i < 100; ++i) pair_->far.backend->progress();
  EXPECT_TRUE(pair_->far.events.notifications.empty());
  for (const auto& [number, one] : pair_->network.connections)
    EXPECT_TRUE(one.path != 0 || one.back.messages.empty());
  pair_->network.paths[0].is_held = false;
  for (int i = 0; i < 100; ++i) pair_->far.backend->progress();
  ASSERT_EQ(pair_->far.events.notifications.size(), 1U);
  EXPECT_EQ(pair_->far.events.notifications.front().message, "the last");
}

// The two sides have their rails in different orders: what the owner answers goes over a rail that
// carried no notification, so the sender sends none again when that one is left.
TEST_P(MessageRailsTest, answer_to_notifications_that_a_lost_rail_carried_comes_again) {
  pair_.emplace(3, 3, kRailPool);
  auto& paths = pair_->network.paths;
  paths[1].is_held = true;
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 2; }));
  paths[1].is_held = false;
  ASSERT_TRUE(pair_->run_until([&] { return pair_->rails_up() == 3; }));
  pair_->settle();
  paths[0].refuses = true;
  pair_->network.cut(0);
  pair_->settle();
  paths[2].is_held = true;
  for (std::size_t i = 0; i < 1024; ++i)
    ASSERT_TRUE(pair_->near.backend->notify(*pair_->way, as_bytes("y")).ok()) << i;
  const auto& heard = pair_->far.events.notifications;
  const auto is_heard = [&] { return heard.size() == 1024; };
  ASSERT_TRUE(pair_->run_until(is_heard, 3000, Duration::zero()));
  EXPECT_EQ(pair_->near.backend->notify(*pair_->way, as_bytes("z")).code(), Code::exhausted);
  pair_->network.cut(2);
  const auto is_answered = [&] {
    return pair_->near.backend->notify(*pair_->way, as_bytes("z")).ok();
  };
  EXPECT_TRUE(pair_->run_until(is_answered, 2000));
  EXPECT_TRUE(pair_->near.events.losses.empty());
}

}  // namespace
}  // namespace towpath::backends::messages
