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
#include <map>
#include <memory>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/tier.h>
#include <towpath/memory/disk_region.h>
#include <towpath/sys/system_file.h>

#include "tools/replay/block_source.h"
#include "tools/replay/chance.h"
#include "tools/replay/history.h"
#include "tools/replay/hop.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// The host pool of prefill: decode maps it.
Result<layout::PhysicalLayout> open_host_pool(const layout::LayoutConfig& config,
                                              agent::Agent& agent);

class Cache final : public BlockSource {
 public:
  static Result<std::unique_ptr<Cache>> open(const Options& options, agent::Agent& agent);

  const layout::PhysicalLayout& layout() const override { return host_.layout(); }
  Result<std::vector<kv::BlockRef>> gather(const std::vector<std::uint64_t>& blocks,
                                           const Meanwhile& meanwhile) override;

  Status settle() override;
  Account mistakes() const override;
  TierCounts counts() const override;
  Faults& faults() override { return faults_; }
  void report(Message& summary) override;

 private:
  Cache(const Options& options, agent::Agent& agent, kv::Tier host, kv::Tier disk,
        std::shared_ptr<memory::DiskRegion> file)
      : options_(options),
        agent_(agent),
        host_(std::move(host)),
        disk_(std::move(disk)),
        file_(std::move(file)),
        chance_(options.faults, options.generator.seed) {}

  struct Pair {  // slots of one block
    kv::SlotId host = 0;
    kv::SlotId disk = 0;
  };
  struct Spill {  // evicted, its bytes still in the host slot
    kv::BlockIdentity identity;
    kv::SlotId host = 0;
    kv::PartialBlock disk;
  };
  struct Missing {          // in the host pool
    std::size_t index = 0;  // in the request
    kv::CachedBlock block;
    kv::PartialBlock host;
    kv::BlockRef disk;  // empty: it is not there either
  };

  Result<kv::PartialBlock> reserve(const std::function<Status()>& make_room);
  Status note_eviction(const kv::Evicted& evicted);
  Status spill();
  Status load(std::vector<Missing> moves, std::vector<kv::BlockRef>& held);
  Status settle_load(Missing move, const Status& read, kv::BlockRef& held);
  Status produce(Missing missing, kv::BlockRef& held);
  Status make_mistake();
  Status spoil_by_chance();
  Status tear(kv::SlotId disk);
  Result<std::uint64_t> cut_by_chance(const std::vector<Missing>& moves);
  Status mend(std::uint64_t cut_at);
  void leave_disk(kv::SlotId slot);
  Result<agent::Transfer> transfer(TransferOp op, const std::vector<Pair>& moves, Hop& hop);
  std::string diagnose(kv::BlockHash hash, kv::SlotId slot) const;

  const Options options_;
  agent::Agent& agent_;
  kv::Tier host_;
  kv::Tier disk_;
  std::shared_ptr<memory::DiskRegion> file_;
  Faults faults_;

  std::vector<Spill> spilling_;
  struct Made {
    kv::SlotId slot = 0;
    kv::BlockHash hash = 0;
  };
  std::vector<Made> made_;  // in this request
  bool mistake_made_ = false;
  std::uint64_t spills_ = 0;
  Chance chance_;
  std::map<kv::SlotId, kv::BlockHash> on_disk_;  // while mistakes are made by chance
  std::map<kv::SlotId, kv::BlockHash> torn_;     // of them, those that nobody has met

  Hop produced_, spilled_, loaded_;
  ByPlace<std::uint64_t> found_;
  std::uint64_t bad_loads_ = 0;
};

}  // namespace towpath::tools::replay
