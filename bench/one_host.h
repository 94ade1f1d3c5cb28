// One host: bytes between two processes over shm, which NIXL's UCX brings along (decision 0011),
// beside UCX's own shared memory and CMA.
// Thread: one.
#pragma once

#include <memory>

#include <towpath/agent/agent.h>
#include <towpath/memory/shared_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/standard.h>

#include "bench/harness.h"
#include "bench/peer_process.h"
#include "bench/perftest.h"

namespace towpath::bench {

class OneHost {
 public:
  /// Forks, so call it before there are threads or agents.
  OneHost();

  void measure(Bench& bench);

 private:
  /// A pool of ours and the peer's of the same kind.
  struct Pools {
    const memory::Region& here;
    std::uint64_t there = 0;
  };

  /// Which of many times stands for all.
  enum class Reported { median, mean };

  agent::Transfer transfer(TransferOp op, const Pools& pools, std::uint64_t size);
  Sample move(TransferOp op, const Pools& pools, const Perftest& like, Reported reported);
  Case beside(TransferOp op, const Pools& pools, const Perftest& like, Reported reported);
  std::string path(const Pools& pools);
  void measure_mapped(Bench& bench);
  void measure_process_vm(Bench& bench);

  std::unique_ptr<PeerProcess> peer_;
  std::unique_ptr<standard::Node> node_;
  std::shared_ptr<memory::SharedMemoryRegion> shared_;
  std::shared_ptr<memory::SystemRegion> plain_;
  memory::Registration shared_known_;
  memory::Registration plain_known_;
};

}  // namespace towpath::bench
