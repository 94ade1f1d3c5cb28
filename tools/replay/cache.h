// Cache: prefill's blocks in a TieredCache, as an engine's connector has them: a host pool, and
// below it a BlockStore on disk, objects in a store, what other prefills have, or all of them.
//
//   nothing --produce--> [ host pool ] --pull (decode's doing)--> decode
//                          |       ^
//                    spill |       | load, then the digest is checked
//                          v       |
//                        [ disk, objects, peers ]
//
// Thread: none of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

#include "tools/replay/account.h"
#include "tools/replay/chance.h"
#include "tools/replay/faults.h"
#include "tools/replay/faulty_tier.h"
#include "tools/replay/history.h"
#include "tools/replay/hop.h"
#include "tools/replay/message.h"
#include "tools/replay/neighbours.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// What the rest of prefill does while the cache waits.
struct Meanwhile {
  std::function<Status()> make_room;  ///< while all slots are held, until one is free
  std::function<void()> listen;       ///< hands what neighbours say to hear()
};

class Cache final {
 public:
  static Result<std::unique_ptr<Cache>> open(const Options& options, agent::Agent& agent);
  ~Cache();

  /// Of the pool that decode pulls from.
  const layout::PhysicalLayout& layout() const { return cache_->layout(); }
  /// Brings all blocks into that pool; gives them, in order, held.
  /// Errors: exhausted (more blocks than slots), or what the moves fail with.
  Result<std::vector<kv::BlockRef>> gather(const std::vector<std::uint64_t>& blocks,
                                           const Meanwhile& meanwhile);
  /// After the last gather(): mistakes at rest that nobody has met yet are looked for.
  Status settle();
  /// By chance, so far; what it found of them itself is among the faults of the report, too.
  Account mistakes() const;

  // ---- neighbours, where there are some ----
  void hear(const agent::Notification& note) { neighbours_->hear(note); }
  /// True: there is more to do at once.
  bool serve();
  /// Slots are held for them.
  bool is_granting() const { return neighbours_ && neighbours_->is_granting(); }

  /// So far.
  TierCounts counts() const;
  kv::TieredCacheFigures figures() const { return cache_->figures(); }
  Faults& faults() { return faults_; }
  void report(Message& summary);

 private:
  /// A tier below the host's, and what went to and from it.
  struct LowerTiers {
    Place place;
    const char* down;  ///< of its hops; null: it takes no blocks
    const char* up;
    std::string where;
    std::uint64_t put_bytes = 0;  // that down_hop has
    Hop down_hop{}, up_hop{};
  };
  explicit Cache(const Options& options)
      : options_(options), chance_(options.faults, options.generator.seed + options.worker) {}
  using Tiers = std::vector<std::unique_ptr<kv::BlockTier>>;
  Status open_disk(Tiers& tiers);
  Status open_objects(agent::Agent& agent, Tiers& tiers);
  Status open_peers(agent::Agent& agent, const layout::LayoutConfig& config, Tiers& tiers);

  void take_a_turn(const Meanwhile& meanwhile);
  void look(const std::vector<std::uint64_t>& blocks, const Meanwhile& meanwhile);
  void demote(bool all);
  void keep_pace();
  /// What was promoted, by its name.
  using Promoted = std::unordered_map<kv::BlockHash, kv::BlockRef>;
  Promoted promote(const std::vector<std::uint64_t>& blocks, std::size_t from,
                   const Meanwhile& meanwhile);
  std::vector<kv::Promoted> promote(const std::vector<kv::CachedBlock>& blocks, LowerTiers& from,
                                    const Meanwhile& meanwhile);
  Result<kv::BlockRef> promote(const kv::CachedBlock& block, const Meanwhile& meanwhile);
  void check_name(kv::Promoted& one);
  void blame(Place place, const Status& status);
  Result<kv::BlockRef> produce(const kv::CachedBlock& block, const Meanwhile& meanwhile);
  Status spoil_by_chance(const std::vector<kv::BlockRef>& made);
  Status spoil_as_asked(const std::vector<kv::BlockRef>& made);
  Status cut_as_asked();
  std::string disk_directory() const;
  std::unique_ptr<kv::BlockTier> with_mistakes(std::unique_ptr<kv::BlockTier> tier,
                                               TornDevice* device);
  void report_failures(LowerTiers& below, const kv::TierFigures& figures, const Status& last);

  const Options options_;
  Chance chance_;
  sys::SystemClock clock_;
  std::shared_ptr<sys::FileSystem> files_;      ///< that the disk tier is in; outlives it
  std::optional<sys::TemporaryDirectory> own_;  ///< of a disk tier that nobody named a place for
  kv::BlockDirectory block_directory_;
  std::vector<LowerTiers> below_;           // tier i is below_[i - 1]
  std::unique_ptr<Neighbours> neighbours_;  // null: there are none
  std::unique_ptr<kv::TieredCache> cache_;
  kv::DiskTier* disk_ = nullptr;       // the cache's; null: none
  FaultyTier* faulty_disk_ = nullptr;  // around it; null: none are injected
  std::uint64_t block_bytes_ = 0;
  Faults faults_;
  std::optional<Instant> demotes_since_;  // none: nothing was left when demote() was called last
  Hop produced_;
  ByPlace<std::uint64_t> found_;
  std::uint64_t bad_loads_ = 0;
  bool mistake_made_ = false;  // the one that was asked for
};

}  // namespace towpath::tools::replay
