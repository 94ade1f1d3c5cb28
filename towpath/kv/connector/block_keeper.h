// BlockKeeper: where a worker of an engine keeps the blocks that the engine may want again. It is
// what the connector's worker needs of tiers, and nothing more.
//
//   room() --> the worker fills the slots --> keep(): digested, and held from now on
//   hold() --> a block in host memory, its bytes proven against its digest just before
//
// Invariants: a block that hold() gives has the bytes that keep() was given, or there is no block.
// Its digest is salted with its hash, so that a block in another's place does not pass.
// Thread: loop.
#pragma once

#include <span>
#include <vector>

#include <towpath/kv/blocks/block_handles.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

class BlockKeeper {
 public:
  virtual ~BlockKeeper() = default;

  /// Host memory: the block of a handle lies in the block of the same number here.
  virtual const layout::PhysicalLayout& memory() const = 0;

  /// All of them or none. Errors: exhausted (the rest is held).
  virtual Result<std::vector<PartialBlock>> room(SlotId count) = 0;
  /// Errors: those of digesting and registering; the block is then given back.
  virtual Status keep(PartialBlock&& block, BlockHash hash) = 0;

  virtual bool has(BlockHash hash) const = 0;
  /// As many answers, in order; what is not in memory is brought there together. The bytes of a
  /// block stay as they are while its handle lives. Errors: not_found; corrupt (quarantined);
  /// exhausted (no slot to bring it to); what reading it failed with.
  virtual std::vector<Result<BlockRef>> hold(std::span<const BlockHash> hashes) = 0;

  /// Does a bounded amount of work: writing what is not yet on the lower tiers. True: there is
  /// more.
  virtual bool progress() = 0;
  /// What was kept so far, and is held yet, survives this process. Errors: of the lower tiers.
  virtual Status sync() = 0;

  struct News {
    bool is_anew = false;           ///< `stored` is all there is: forget what was told before
    std::vector<BlockHash> stored;  ///< hold() may be asked for it; some twice
    std::vector<BlockHash> lost;    ///< in vain
  };
  /// Since the last call; the first says what was there from the start.
  virtual News take_news() = 0;
};

}  // namespace towpath::kv
