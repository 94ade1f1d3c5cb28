#include <atomic>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/run/eventually.h>
#include <towpath/run/gate.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::run {
namespace {

TEST(GateTest, closed_gate_lets_nobody_in_and_empties) {
  Gate gate;
  ASSERT_TRUE(gate.enter());
  ASSERT_TRUE(gate.enter());
  EXPECT_EQ(gate.inside(), 2U);
  gate.close();
  EXPECT_FALSE(gate.enter());
  EXPECT_FALSE(gate.try_enter().has_value());
  EXPECT_TRUE(gate.is_closed());
  EXPECT_FALSE(gate.is_drained());
  gate.leave();
  gate.leave();
  EXPECT_TRUE(gate.is_drained());
  EXPECT_TRUE(gate.wait_until_empty().ok());
  gate.close();
}

TEST(GateTest, one_that_was_never_entered_may_die_open) {
  const Gate gate;
  EXPECT_FALSE(gate.is_drained());
}

TEST(GateTest, pass_leaves_when_it_dies_and_moves) {
  Gate gate;
  {
    auto pass = gate.try_enter();
    ASSERT_TRUE(pass.has_value());
    std::vector<Gate::Pass> kept;
    kept.push_back(*std::move(pass));
    pass.reset();
    EXPECT_EQ(gate.inside(), 1U);
  }
  EXPECT_EQ(gate.inside(), 0U);
  gate.close();
}

TEST(GateTest, waiting_says_why_it_ends_early) {
  const sys::SystemClock clock;
  Gate gate;
  EXPECT_EQ(gate.wait_until_empty().code(), Code::not_ready);
  ASSERT_TRUE(gate.enter());
  gate.close();
  const Status late = gate.wait_until_empty(Deadline::after(clock, Duration(1000)));
  EXPECT_EQ(late.code(), Code::timed_out);
  EXPECT_NE(late.message().find("1 still inside"), std::string_view::npos);
  gate.leave();
}

TEST(GateTest, what_was_done_inside_is_seen_after_the_wait) {
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::vector<int> counts(3);  // guarded by the gate alone: TSan looks at the ordering
    std::atomic<int> started{0};
    std::vector<Worker> workers;
    for (int& count : counts)
      workers.push_back(Worker::start("inside", [&](const StopToken&) {
                          while (gate.enter()) {
                            if (++count == 1) ++started;
                            gate.leave();
                          }
                        }).value());
    EXPECT_TRUE(eventually([&] { return started == 3; }));
    gate.close();
    ASSERT_TRUE(gate.wait_until_empty().ok());
    for (int& count : counts) EXPECT_GT(std::exchange(count, 0), 0);
    for (auto& worker : workers) worker.join();
  }
}

TEST(GateDeathTest, misuse_stops_with_the_reason) {
  EXPECT_DEATH(
      {
        Gate gate;
        (void)gate.enter();
      },
      "dies with someone inside");
  EXPECT_DEATH(
      {
        Gate gate;
        (void)gate.enter();
        gate.leave();
      },
      "without having been closed");
  EXPECT_DEATH(
      {
        Gate gate;
        gate.leave();
      },
      "left more often than entered");
}

}  // namespace
}  // namespace towpath::run
