// Several PEs of one job, for tests: as threads of this process, or as processes of their own.
// Thread: none of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/shmem/context.h>

namespace towpath::shmem::testing {

inline constexpr std::uint64_t kTestHeap = 4 << 20;

struct PesOptions {
  int pes = 2;
  std::uint64_t heap_bytes = kTestHeap;
  ContextOptions context;
  /// PEs stand by turns on so many hosts: they share no memory, and speak over the network.
  int hosts = 1;
  NetworkOptions network;
};

/// Runs `body` in a thread for each PE, with a context that is finalized by nobody.
void as_threads(const PesOptions& options, const std::function<void(Context&)>& body);

/// Runs `body` in a process for each PE; answers their wait(2) statuses. A body's value is the exit
/// status, but for one in which an expectation failed. A process that does not end within a minute
/// is ended.
std::vector<int> as_processes(const PesOptions& options, const std::function<int(Context&)>& body);

/// Runs a thread for each PE, which comes into the job by `open`; all add up a sum in PE 0's heap,
/// and finalize.
void add_up(int pes, const std::function<Result<Context>(int pe)>& open);

/// What carries what PEs do to each other: nothing, on one host; or one of these.
using Engine = std::optional<NetworkEngine>;

/// A suite that every engine must pass.
class EngineTest : public ::testing::TestWithParam<Engine> {
 protected:
  void SetUp() override;
  /// As above, on as many hosts as the engine has.
  static void as_threads(PesOptions options, const std::function<void(Context&)>& body);
};
std::string name_of(const Engine& engine);
#define TOWPATH_ON_EVERY_ENGINE(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      On, suite, ::testing::Values(testing::Engine(), NetworkEngine::tcp, NetworkEngine::ucx), \
      [](const auto& engine) { return testing::name_of(engine.param); })

/// Empty: this engine is here.
std::string why_not(const Engine& engine);
/// On this machine.
NetworkOptions network_with(NetworkEngine engine);

/// A piece of JobFiles for one more taker.
Bootstrap bootstrap_for(const JobFiles& files, int pe);

}  // namespace towpath::shmem::testing
