// Survivor: the side of a test that stays while its peers, in other processes, die or fall silent.
//
// An agent and a pool of memory. Its peers' pools are as large.
// Thread: none of its own.
#pragma once

#include <functional>
#include <memory>

#include <towpath/backend/conformance/peer_process.h>
#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {

inline constexpr std::uint64_t kSurvivorPool = 4 * kMiB;

class Survivor {
 public:
  Survivor(const Candidate& candidate, Store store);

  /// Metadata is exchanged.
  void meet(const PeerProcess& peer);
  /// Between all bytes of `local`, which is registered here and as large as a pool, and the peer's.
  Result<agent::Transfer> make(TransferOp op, const TestMemory& local, const PeerProcess& peer,
                               const agent::TransferOptions& options = {});
  bool run_until(const std::function<bool()>& done) {
    return conformance::run_until({agent.get()}, done);
  }
  /// All bytes, both ways, against a peer that lives.
  void expect_traffic(const PeerProcess& peer);

 private:
  sys::SystemClock clock_;
  Registry registry_;

 public:
  TestMemory memory;
  std::unique_ptr<agent::Agent> agent;
  bool ready = false;  ///< false: something could not be made, and the test has failed

 private:
  memory::Registration pool_;
};

}  // namespace towpath::backend::conformance
