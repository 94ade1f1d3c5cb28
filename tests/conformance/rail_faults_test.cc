// The n-th allocation fails, for every n, while a link has several rails: as it finds its paths, as
// it takes notifications, as it leaves a rail, and as it loses the last. Once there is memory again
// it goes on as if there had always been some, over one rail less for a while.
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <towpath/backends/messages/message_rails_fixture.h>
#include <towpath/core/format.h>

#include "failing_allocation.h"

namespace towpath::backends::messages {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFaultsPool = 256 * 1024;
constexpr std::size_t kMostUnanswered = 1024;

class RailFaultsTest : public ::testing::TestWithParam<TransferOp> {
 protected:
  /// `meanwhile` is what fails, behind `prepare` and before `judge`.
  void try_all(std::size_t rails, const std::function<void(RailPair&)>& prepare,
               const std::function<void(RailPair&)>& meanwhile,
               const std::function<void(RailPair&)>& judge) {
    bool is_reached = true;
    std::int64_t n = 0;
    for (; is_reached; ++n) {
      SCOPED_TRACE(cat("allocation ", n));
      RailPair pair(rails, rails, kFaultsPool);
      pair.network.step = 40'000;
      reserve(pair);
      prepare(pair);
      if (HasFatalFailure()) return;
      testing::fail_allocation(n);
      meanwhile(pair);
      is_reached = testing::stop_failing();
      judge(pair);
      if (HasFailure()) return;
      ASSERT_LT(n, 10'000);
    }
    std::cout << n << " allocations\n";
    EXPECT_GT(n, 3) << "nothing was tried";
  }
  static void bring_up(RailPair& pair) {
    ASSERT_TRUE(pair.run_until([&] { return pair.rails_up() == pair.network.paths.size(); }));
    pair.settle();
  }
  static void notify(RailPair& pair, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_TRUE(pair.near.backend->notify(*pair.way, as_bytes(std::to_string(i))).ok());
  }
  static void expect_notifications(RailPair& pair, std::size_t count) {
    const auto& heard = pair.far.events.notifications;
    EXPECT_TRUE(pair.run_until([&] { return heard.size() >= count; }, 1000, milliseconds(5)));
    pair.run_until([] { return false; }, 200);
    ASSERT_EQ(heard.size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(heard[i].message, std::to_string(i));
    for (std::size_t i = 0; i < kMostUnanswered; ++i)
      ASSERT_TRUE(pair.near.backend->notify(*pair.way, as_bytes("y")).ok()) << i;
  }
  static void expect_all_up(RailPair& pair) {
    const auto all_up = [&] { return pair.rails_up() == pair.network.paths.size(); };
    EXPECT_TRUE(pair.run_until(all_up, 1000, milliseconds(20)));
    EXPECT_TRUE(pair.near.events.losses.empty());
    EXPECT_TRUE(pair.far.events.losses.empty());
  }

 private:
  // What the test itself keeps takes none of the memory that fails.
  static void reserve(RailPair& pair) {
    for (RailSide* side : {&pair.near, &pair.far}) {
      side->events.notifications.reserve(2 * kMostUnanswered);
      side->events.losses.reserve(8);
    }
    pair.near.events.completions[pair.operation.get()].reserve(8);
  }
};

INSTANTIATE_TEST_SUITE_P(Op, RailFaultsTest, ::testing::Values(TransferOp::read, TransferOp::write),
                         [](const auto& op) {
                           return op.param == TransferOp::read ? "read" : "write";
                         });

// Over one rail: more than the containers of what came have room for.
TEST_F(RailFaultsTest, notification_that_found_no_memory_comes_again) {
  constexpr std::size_t kNotes = 60;
  try_all(
      2,
      [](RailPair& pair) {
        bring_up(pair);
        notify(pair, kNotes);
      },
      [](RailPair& pair) {
        for (std::size_t i = 0; i < 2 * kNotes; ++i)
          (void)testing::survives([&] { pair.far.backend->progress(); });
      },
      [](RailPair& pair) {
        expect_notifications(pair, kNotes);
        expect_all_up(pair);
      });
}

TEST_P(RailFaultsTest, rail_is_left_again_until_all_of_it_is_done) {
  constexpr std::size_t kNotes = 5;
  try_all(
      3,
      [](RailPair& pair) {
        pair.network.spends_buffers = true;
        bring_up(pair);
        pair.post(GetParam());
        ASSERT_TRUE(pair.run_until([&] { return pair.network.moved[0] > 0; }));
        ASSERT_EQ(pair.done(), 0U);
        pair.network.paths[0].is_held = true;
        notify(pair, kNotes);
        pair.network.cut(0);
        pair.network.paths[0].is_held = false;
      },
      [](RailPair& pair) {
        for (int i = 0; i < 4; ++i) (void)testing::survives([&] { pair.near.backend->progress(); });
      },
      [](RailPair& pair) {
        ASSERT_TRUE(pair.run_until([&] { return pair.done() == 1; }, 5000));
        EXPECT_TRUE(pair.outcome().ok()) << pair.outcome().to_string();
        EXPECT_TRUE(pair.near.pool == pair.far.pool);
        expect_notifications(pair, kNotes);
        expect_all_up(pair);
      });
}

TEST_P(RailFaultsTest, link_ends_with_all_of_its_transfers) {
  constexpr std::size_t kTransfers = 150;
  std::vector<std::unique_ptr<backend::Operation>> operations;
  const auto is_over = [&](RailPair& pair) {
    for (const auto& operation : operations)
      if (pair.near.events.count(*operation) == 0) return false;
    return true;
  };
  try_all(
      2,
      [&](RailPair& pair) {
        bring_up(pair);
        operations.clear();
        pair.post(GetParam(), 0, 4096);
        ASSERT_TRUE(pair.run_until([&] { return pair.done() == 1; }));
        for (std::size_t i = 0; i < kTransfers; ++i) {
          operations.push_back(pair.near.backend->make_operation());
          pair.near.events.completions[operations.back().get()].reserve(8);
          operations.back()->post(
              {.op = GetParam(), .connection = pair.way.get(), .segments = pair.segments});
        }
        pair.network.cut(0);
        pair.network.cut(1);
      },
      [](RailPair& pair) {
        for (int i = 0; i < 4; ++i) (void)testing::survives([&] { pair.near.backend->progress(); });
      },
      [&](RailPair& pair) {
        EXPECT_TRUE(pair.run_until([&] { return is_over(pair); }, 500, milliseconds(20)));
        EXPECT_EQ(pair.near.events.losses.size(), 1U);
        for (const auto& operation : operations) {
          ASSERT_EQ(pair.near.events.count(*operation), 1U);
          EXPECT_EQ(pair.near.events.last(*operation).status.code(), Code::peer_lost);
        }
        operations.clear();  // before their backend
      });
}

// Also the first of them, over which the peer may be lost as long as it is alone.
TEST_F(RailFaultsTest, paths_are_found_whole_or_again) {
  std::size_t lost = 0, found = 0;
  try_all(
      3, [](RailPair&) {},
      [](RailPair& pair) {
        for (int i = 0; i < 60; ++i) {
          (void)testing::survives([&] { pair.near.backend->progress(); });
          (void)testing::survives([&] { pair.far.backend->progress(); });
        }
      },
      [&](RailPair& pair) {
        pair.run_until([] { return false; }, 500, milliseconds(20));
        if (!pair.near.events.losses.empty()) {
          ++lost;
          return;
        }
        ++found;
        expect_all_up(pair);
        const std::string path = pair.near.backend->describe_path(*pair.near.memory, *pair.remote);
        EXPECT_NE(path.find("; rails: 0, 1, 2"), std::string::npos) << path;
      });
  std::cout << lost << " lost their peer\n";
  EXPECT_GT(found, lost);
}

}  // namespace
}  // namespace towpath::backends::messages
