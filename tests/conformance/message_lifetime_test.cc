// What a transfer's handle keeps alive of its backend asks for nothing that the agent was given.
#include <gtest/gtest.h>

#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

/// Counts who asks after its time.
class WatchedClock final : public Clock {
 public:
  Instant now() const noexcept override {
    if (over) ++late_questions;
    return system_.now();
  }
  Duration since_epoch() const noexcept override { return system_.since_epoch(); }

  bool over = false;
  mutable int late_questions = 0;

 private:
  sys::SystemClock system_;
};

TEST(MessageLifetimeTest, handle_may_outlive_agent_and_clock) {
  const Candidate carried = candidates().front();
  if (const auto why = not_here(carried.unavailable); !why.empty()) GTEST_SKIP() << why;
  constexpr std::uint64_t kPool = 64 * 1024;
  const Registry registry = carried.make_registry();
  WatchedClock clock;
  agent::Transfer transfer;
  {
    const auto near_memory = TestMemory::make(Store::system, kPool);
    const auto far_memory = TestMemory::make(Store::system, kPool);
    ASSERT_TRUE(near_memory.ok() && far_memory.ok());
    const auto far = make_agent(carried, registry, clock, {.name = "far"}).value();
    const auto near = make_agent(carried, registry, clock, {.name = "near"}).value();
    const auto far_pool = far->register_region(far_memory->region()).value();
    const auto near_pool = near->register_region(near_memory->region()).value();
    ASSERT_TRUE(near->load_metadata(far->metadata().value()).ok());
    const auto whole = strided({.length = kPool});
    transfer = near->create_transfer(TransferOp::write, list_of(whole, *near_memory), "far",
                                     list_of(whole, *far_memory))
                   .value();
    ASSERT_TRUE(transfer.post().ok());
    ASSERT_TRUE(run_until({near.get(), far.get()}, [&] { return transfer.ended(); }));
  }
  EXPECT_EQ(transfer.outcome(), Outcome::done) << transfer.status().to_string();
  clock.over = true;
  transfer = {};
  EXPECT_EQ(clock.late_questions, 0);
}

}  // namespace
}  // namespace towpath::backend::conformance
