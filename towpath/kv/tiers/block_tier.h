// BlockTier: a level of memory below a cache's pool that keeps whole blocks by name, as bytes in
// canonical order (digest.h). How it keeps them is its own affair: the host's memory, files, a
// store.
//
//   begin(task) --> [ under way ] --progress()--> task.has_ended, task.status
//                         |  cancel(task): soon
//
// Memory answers at once: a task ends within begin(). Others have up to depth() tasks under way,
// and a caller that has more waits: that is the back-pressure. Which is begun first is the caller's
// business.
//
// It reports to BlockDirectory what it has, as tier `index()`: a block from the moment on when it
// is there for good, until it is gone, for whatever reason. Invariants: what a get gives is what
// was put; a put that ended well is there for good; a task ends exactly once, and nothing touches
// its bytes afterwards. Thread: none of its own; TieredCache calls it from one thread at a time.
// name(), index(), depth(), put_depth(), wait_fd(), must_be_asked(), takes_blocks(): any.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

/// A block on its way to a tier, or from it. It is the caller's, who keeps it and its bytes where
/// they are until it has ended.
struct TierTask {
  enum class Kind : std::uint8_t {
    put,   ///< proves `bytes` against `digest` before it keeps them, unless that was done
    get,   ///< fills `bytes`, and `digest` that they were held against
    look,  ///< asks whether it is there, and with which digest; BlockDirectory is notified
  };
  Kind kind = Kind::get;
  BlockHash hash = 0;
  Digest digest;
  ByteSpan bytes;  ///< put: only read
  /// Of a put: `digest` is that of `bytes` where they lie. It was taken there, or in the copy that
  /// made them, and nobody writes to them since. A tier that copies them proves its copy.
  bool is_proven = false;
  /// Of a get: `bytes` are this slot of the cache's memory; nothing: they lie elsewhere.
  std::optional<SlotId> slot{};
  /// The block before it in its prompt, where the caller knows it; of a get else where the tier
  /// does, once it has ended.
  std::optional<BlockHash> parent{};

  bool has_ended = false;
  /// Errors: corrupt (put: the bytes do not match, nothing is kept; get: quarantined, it is there
  /// no more); not_found; denied (it can only be read); exhausted (no room); invalid_argument
  /// (another length); cancelled; io_error, timed_out and others of their kind.
  Status status;

  /// For tiers.
  void end(Status how) {
    status = std::move(how);
    has_ended = true;
  }
};

/// How full a tier is.
struct TierCapacity {
  std::uint64_t blocks = 0;
  std::uint64_t most_blocks = 0;  ///< that there is room for
  std::uint64_t evicted = 0;      ///< gone since the start, for others' sake
};

class BlockTier {
 public:
  virtual ~BlockTier() = default;

  virtual const std::string& name() const noexcept = 0;
  /// 1 or more: 0 is the pool's.
  virtual TierIndex index() const noexcept = 0;
  /// Tasks that may be under way at once; 1 or more.
  virtual std::size_t depth() const noexcept { return 1; }
  /// Puts that may be besides. 0: they count as the others do, and leave a place to those.
  virtual std::size_t put_depth() const noexcept { return 0; }
  /// Others put blocks there, too, or an earlier life did: it knows of a block only when it looks.
  virtual bool must_be_asked() const noexcept { return false; }
  /// False: it is only read from. What comes from there is demoted to the tiers that do.
  virtual bool takes_blocks() const noexcept { return true; }

  /// It has the block, and will soon have it no more, unless it is put again.
  virtual bool is_leaving(BlockHash hash) const { return (void)hash, false; }
  /// It has the block, but cannot read all of what an earlier life wrote after it: which may be
  /// another put of this hash, or its removal. For callers that put other bytes under a hash.
  virtual bool may_be_replaced(BlockHash hash) const { return (void)hash, false; }
  /// Nothing: it does not know.
  virtual std::optional<TierCapacity> room() const { return std::nullopt; }

  /// Fewer than depth() are under way. The task may have ended when this returns. It may wait for
  /// others that share its costs, until the next progress().
  virtual void begin(TierTask& task) = 0;
  /// The task ends soon, as cancelled or as it would have.
  virtual void cancel(TierTask& task) { (void)task; }
  /// Moves what is under way, a bounded amount. True: there is more to do at once.
  virtual bool progress() { return false; }
  /// Sleeps until progress() may have something to do, or so long.
  virtual void wait_for_work(Duration most) { (void)most; }
  /// Readable while progress() may have something to do; -1: what is begun ends at once.
  virtual int wait_fd() const { return -1; }

  /// So that the next life finds sooner what is there. Without it only time is lost.
  virtual void checkpoint() {}
  /// Errors: not_found, and those of writing.
  virtual Status remove(BlockHash hash) = 0;
};

}  // namespace towpath::kv
