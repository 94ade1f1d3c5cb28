// BlockKeeper: where a worker of an engine keeps the blocks that the engine may want again. It is
// what the connector's worker needs of tiers, and nothing more.
//
//   room() --> the worker fills the slots --> keep(): digested, and held from now on
//   bring() --progress()--> blocks in host memory, each proven against its digest just before
//
// Nothing waits but hold(). Invariants: a block that comes has the bytes that keep() was given, or
// there is no block. Its digest is salted with its hash, so that a block in another's place does
// not pass. Thread: loop.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/blocks/block_handles.h>
#include <towpath/kv/connector/hints.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

/// Blocks that were asked for together, on their way to memory while their keeper makes progress.
/// When it goes, those that have not come are given up. The keeper outlives it.
class ComingBlocks {
 public:
  virtual ~ComingBlocks() = default;

  /// A block is there, and its bytes stay as they are while its handle lives; or `status` says why
  /// not: not_found; corrupt (quarantined); exhausted (no slot to bring it to, or too many wait:
  /// ask again when some have gone); what reading it failed with.
  struct Came {
    std::size_t index = 0;  ///< among those that were asked for
    BlockRef block;
    Status status;
  };
  /// What came since the last call, or cannot come: each is reported once, in any order.
  virtual std::vector<Came> take() = 0;
  /// How many take() has not reported.
  virtual std::size_t left() const = 0;
};

struct KeptBlock {
  BlockHash hash = 0;
  std::uint8_t priority = kUsualPriority;
  TenantId tenant = 0;
};

class BlockKeeper {
 public:
  virtual ~BlockKeeper() = default;

  /// Host memory: the block of a handle lies in the block of the same number here.
  virtual const layout::PhysicalLayout& memory() const = 0;

  /// For blocks of this tenant (0: of none), all of them or none. Errors: exhausted (the rest is
  /// held, or others').
  virtual Result<std::vector<PartialBlock>> room(SlotId count, TenantId tenant) = 0;
  /// It goes on to the lower tiers in its time, the more urgent first.
  /// Errors: those of digesting and registering; the block is then given back.
  virtual Status keep(PartialBlock&& block, const KeptBlock& as) = 0;

  virtual bool has(BlockHash hash) const = 0;
  /// Whether it is where this process's end does not reach: in files and objects, synced; with a
  /// server.
  virtual bool outlives_this(BlockHash hash) const { return (void)hash, false; }
  /// Those in memory are proven now; the others are brought there together, the more urgent first.
  virtual std::unique_ptr<ComingBlocks> bring(std::span<const BlockHash> hashes,
                                              std::uint8_t priority) = 0;
  /// Brings, and waits for all: as many answers, in order. Called while it waits: what else this
  /// thread has to drive.
  std::vector<Result<BlockRef>> hold(std::span<const BlockHash> hashes,
                                     const std::function<void()>& meanwhile = {});

  /// Does a bounded amount of work: bringing, and writing what is not yet on the lower tiers. True:
  /// there is more.
  virtual bool progress() = 0;
  /// Sleeps until progress() may bring something, or so long; not at all where nothing is awaited.
  virtual void wait_for_work(Duration most) = 0;
  /// What was kept so far, and is held yet, survives this process. Errors: of the lower tiers.
  virtual Status sync() = 0;

  struct News {
    bool is_anew = false;           ///< `stored` is all there is: forget what was reported before
    std::vector<BlockHash> stored;  ///< may be asked for; some twice
    std::vector<BlockHash> lost;    ///< that were asked for and are gone
  };
  /// Since the last call; the first says what was there from the start.
  virtual News take_news() = 0;
  /// Does it as it makes progress; each is answered once.
  virtual void hint(HintOrder order) = 0;
  virtual std::vector<HintAnswer> take_hint_answers() = 0;
  /// A hint is under way; one that waits for its time is not.
  virtual bool has_hints() const = 0;

  /// The fastest tier that has the block now; 0: memory.
  virtual TierIndex tier_of(BlockHash hash) const { return (void)hash, TierIndex{0}; }
  /// Of the tiers below memory, as measured so far.
  virtual std::vector<TierCost> costs() const { return {}; }
};

}  // namespace towpath::kv
