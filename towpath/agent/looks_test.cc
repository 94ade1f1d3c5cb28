// How often who sleeps in an agent looks before it: he reads the clock at every look.
#include <algorithm>

#include <gtest/gtest.h>

#include <towpath/agent/testing/agent_pair.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/run/eventually.h>
#include <towpath/run/spinning_idle.h>
#include <towpath/sys/clock.h>

namespace towpath::agent {
namespace {

struct CountingClock final : Clock {
  Instant now() const noexcept override {
    ++asked;
    return kernel.now();
  }
  Duration since_epoch() const noexcept override { return kernel.since_epoch(); }
  sys::SystemClock kernel;
  mutable int asked = 0;
};

/// Begin, end and deadline of a sleep, and before and after the look.
constexpr int kReadsWithOneLook = 6;

/// How often a sleep reads the clock, after many short ones.
int looks_in_a_sleep(Agent& agent, const CountingClock& clock) {
  for (std::uint32_t i = 0; i < 2 * run::SpinningIdleStrategy::kDistrust; ++i) {
    agent.wake();
    agent.wait_for_work(std::chrono::hours(1));
  }
  agent.progress();  // takes what woke it
  clock.asked = 0;
  agent.wait_for_work(std::chrono::milliseconds(1));
  return clock.asked;
}

TEST(LooksTest, who_waits_for_threads_of_the_kernel_alone_looks_once) {
  CountingClock clock;
  Script script;
  script.is_eager = false;
  script.can.looks_pay = false;
  backend::Registry registry;
  ASSERT_TRUE(registry.add(scripted_type("x", script)).ok());
  const auto agent = Agent::create({.name = "a", .registry = &registry, .clock = &clock}).value();
  ASSERT_TRUE(agent->add_backend("x").ok());
  memory::SharedRegion region;
  const memory::Registration pool = Pair::pool_of(*agent, region);
  Transfer transfer = *agent->create_transfer(TransferOp::write, Pair::blocks(region, 0, 1), "a",
                                              Pair::blocks(region, 1, 1));
  ASSERT_TRUE(transfer.post().ok());
  int most = 0;
  for (int i = 0; i < 50; ++i) most = std::max(most, looks_in_a_sleep(*agent, clock));
  EXPECT_LE(most, kReadsWithOneLook);
  script.active.front()->complete({});
  ASSERT_TRUE(transfer.ended());
  EXPECT_TRUE(run::eventually([&] { return looks_in_a_sleep(*agent, clock) > kReadsWithOneLook; }))
      << "or somebody else wants this core all the time";
}

}  // namespace
}  // namespace towpath::agent
