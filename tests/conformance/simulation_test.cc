// Thousands of seeds of a network that delays, drops, repeats, tears and fails, for each way in
// which a backend quiesces and for both kinds of notifications. A seed that breaks is printed;
// once understood it is kept below by its number.
#include "simulation.h"

#ifdef TOWPATH_ASAN
// Of LeakSanitizer.
extern "C" void __lsan_disable();
extern "C" void __lsan_enable();
#else
inline void __lsan_disable() {}
inline void __lsan_enable() {}
#endif

#include <csignal>
#include <cstdio>
#include <cstring>
#include <tuple>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/testing/seeds.h>

namespace towpath::conformance {
namespace {

using backend::Notifications;
using backend::Quiescence;

constexpr std::uint64_t kSeeds = seeds_of(400);

// A seed may break the program itself; then the handler says which it was.
char running[32] = "seed none\n";

void report_seed(int signal) {
  (void)!::write(STDERR_FILENO, running, std::strlen(running));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class SeedReporter : public testing::Environment {
 public:
  void SetUp() override {
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(signal, report_seed);
  }
};

const auto* const kReporter = testing::AddGlobalTestEnvironment(new SeedReporter);

struct Seen {
  std::uint64_t done = 0, heard = 0;
};

// What never quiesces is kept for good: that is no leak.
std::string run_one(std::uint64_t seed, Quiescence quiesced, Notifications notifications,
                    Seen& seen) {
  std::snprintf(running, sizeof running, "seed %llu\n", static_cast<unsigned long long>(seed));
  if (quiesced == Quiescence::none) __lsan_disable();
  std::string broke;
  {
    Simulation simulation(seed, quiesced, notifications);
    broke = simulation.run();
    seen.done += simulation.done();
    seen.heard += simulation.heard();
  }
  if (quiesced == Quiescence::none) __lsan_enable();
  return broke;
}

class SimulationTest : public testing::TestWithParam<std::tuple<Quiescence, Notifications>> {
 protected:
  static std::string run(std::uint64_t seed, Seen& seen) {
    return run_one(seed, std::get<0>(GetParam()), std::get<1>(GetParam()), seen);
  }
};

TEST_P(SimulationTest, promise_holds_for_every_seed) {
  Seen seen;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ASSERT_EQ(run(seed, seen), "") << "seed " << seed;
  }
  // Agents that refuse all break no promise.
  EXPECT_GT(seen.done, kSeeds);
  EXPECT_GT(seen.heard, kSeeds);
}

struct Found {
  std::uint64_t seed;
  Quiescence quiesced;
  Notifications notifications;
  const char* fault;
};

TEST(SimulationRegressionTest, seeds_that_once_broke) {
  constexpr Found kFound[] = {
      {27, Quiescence::immediate, Notifications::reliable,
       "a peer met again got nothing: same stream"},
      {15, Quiescence::none, Notifications::lossy, "the same, acknowledged by the old stream"},
      {165, Quiescence::bounded, Notifications::reliable, "the old peer's end hid the new one"},
      {19, Quiescence::bounded, Notifications::lossy,
       "the same, with messages repeated indefinitely"},
  };
  Seen seen;
  for (const Found& found : kFound)
    EXPECT_EQ(run_one(found.seed, found.quiesced, found.notifications, seen), "") << found.fault;
}

INSTANTIATE_TEST_SUITE_P(
    Networks, SimulationTest,
    testing::Combine(testing::Values(Quiescence::immediate, Quiescence::bounded,
                                     Quiescence::teardown, Quiescence::none),
                     testing::Values(Notifications::reliable, Notifications::lossy)),
    [](const auto& network) {
      return std::string(name_of(std::get<0>(network.param))) + "_" +
             std::string(name_of(std::get<1>(network.param)));
    });

}  // namespace
}  // namespace towpath::conformance
