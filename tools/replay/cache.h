// Cache: the two tiers of prefill, host and disk, and the moves between them.
//
//            produce                       pull (decode's doing)
//   nothing ---------> [ host pool ] ------------------------> decode
//                        |       ^
//                  spill |       | load, then the digest is checked
//                        v       |
//                      [ disk tier ]
//
// Thread: none of its own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/tier.h>
#include <towpath/memory/disk_region.h>
#include <towpath/sys/system_file.h>

#include "tools/replay/faults.h"
#include "tools/replay/history.h"
#include "tools/replay/hop.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

class Cache {
 public:
  static Result<std::unique_ptr<Cache>> open(const Options& options, agent::Agent& agent);

  const layout::PhysicalLayout& layout() const { return host_.layout(); }

  /// Brings all blocks into the host pool and pins them there; gives their slots, in order.
  /// `make_room` is called while all slots are pinned, until one is free.
  /// Errors: exhausted (more blocks than slots), or what the moves fail with.
  Result<std::vector<kv::SlotId>> gather(const std::vector<std::uint64_t>& blocks,
                                         const std::function<Status()>& make_room);
  const kv::Digest& digest(kv::SlotId slot) const { return host_.slots().digest(slot); }
  void unpin(const std::vector<kv::SlotId>& slots);

  TierCounts counts() const;
  Faults& faults() { return faults_; }
  void report(Message& summary) const;

 private:
  Cache(const Options& options, agent::Agent& agent, kv::Tier host, kv::Tier disk,
        std::shared_ptr<memory::DiskRegion> file)
      : options_(options),
        agent_(agent),
        host_(std::move(host)),
        disk_(std::move(disk)),
        file_(std::move(file)),
        digester_(options.salt) {}

  struct Move {  // a block between a host slot and a disk slot
    kv::BlockHash hash = 0;
    kv::SlotId host = 0;
    kv::SlotId disk = 0;
    kv::Digest digest;
  };

  Result<kv::SlotId> reserve(const kv::CachedBlock& block,
                             const std::function<Status()>& make_room);
  Status note_eviction(const kv::Evicted& evicted);
  Status spill();
  Status load(std::vector<Move> moves);
  Status settle_load(const Move& move, const Status& read);
  Status produce(kv::BlockHash hash, kv::SlotId slot);
  Status make_mistake();
  Result<agent::Transfer> transfer(TransferOp op, const std::vector<Move>& moves, Hop& hop);
  std::string diagnose(kv::BlockHash hash, kv::SlotId slot) const;

  const Options options_;
  agent::Agent& agent_;
  kv::Tier host_;
  kv::Tier disk_;
  std::shared_ptr<memory::DiskRegion> file_;
  kv::Digester digester_;
  Faults faults_;

  std::vector<Move> spilling_;    // evicted, their bytes still in the host slots
  std::vector<kv::SlotId> made_;  // in this request
  bool mistake_made_ = false;
  std::uint64_t spills_ = 0;

  Hop produced_, spilled_, loaded_;
  std::uint64_t host_hits_ = 0, disk_hits_ = 0, misses_ = 0, bad_loads_ = 0;
};

}  // namespace towpath::tools::replay
