// RelayedTier: a tier that another thread drives than the cache's: what the cache asks for is
// handed over, and what came of it handed back.
//
//   cache's thread:   begin(task) --> asked ...               ... ended --> progress(): task ends
//                                       |                           ^
//   driver's thread:                 drive() --> tier --> drive() --'
//
// So a cache whose disk has a thread can have a tier (PeerTier) whose agent and manager are another
// thread's, and neither waits for the other. Invariants: a task of the cache is written to by the
// cache's thread alone; the tier sees a copy of it, and writes to its bytes.
// Thread: drive() the driver's, one at a time; the rest as BlockTier, the cache's. After
// drive_here() the cache's is both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/kv/tiers/block_tier.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>

namespace towpath::kv {

class RelayedTier final : public BlockTier {
 public:
  /// `wake_driver` has the driver call drive() soon; it is called from the cache's thread. Errors:
  /// exhausted (no descriptor is free).
  static Result<std::unique_ptr<RelayedTier>> make(std::unique_ptr<BlockTier> tier,
                                                   std::function<void()> wake_driver);

  // ---- The cache's thread ----
  const std::string& name() const noexcept override { return tier_->name(); }
  TierIndex index() const noexcept override { return tier_->index(); }
  std::size_t depth() const noexcept override { return tier_->depth(); }
  std::size_t put_depth() const noexcept override { return tier_->put_depth(); }
  bool must_be_asked() const noexcept override { return tier_->must_be_asked(); }
  bool takes_blocks() const noexcept override { return tier_->takes_blocks(); }
  void begin(TierTask& task) override;
  void cancel(TierTask& task) override;
  bool progress() override;
  int wait_fd() const override { return waker_->fd(); }
  void wait_for_work(Duration most) override;
  /// Handed over: the block may be found for a moment more. What comes of it, nobody hears.
  Status remove(BlockHash hash) override;
  /// The driver has ended: from now on progress() drives, too.
  void drive_here() { drives_here_ = true; }

  // ---- The driver's thread ----
  /// True: something has moved, or there is more to do at once.
  bool drive();
  /// Whether the cache has asked for something, and has not been answered.
  bool has_work();
  /// Sleeps until drive() may have something to do, or so long.
  void wait_to_drive(Duration most) { tier_->wait_for_work(most); }

 private:
  struct Asked {
    enum class What { begin, cancel, remove };
    What what;
    TierTask* task;  // of the cache; only a name here
    TierTask copy{};
  };
  struct Ended {
    TierTask* task;
    Digest digest;
    std::optional<BlockHash> parent;
    Status status;
  };

  RelayedTier(std::unique_ptr<BlockTier> tier, std::function<void()> wake_driver,
              std::unique_ptr<run::Waker> waker, run::Poller nothing_else)
      : tier_(std::move(tier)),
        wake_driver_(std::move(wake_driver)),
        waker_(std::move(waker)),
        nothing_else_(std::move(nothing_else)) {}

  void ask(Asked what);
  void start(Asked& one);
  std::vector<Ended> take_ended();

  std::unordered_map<TierTask*, TierTask> under_way_;  // the driver's; outlives tier_
  const std::unique_ptr<BlockTier> tier_;
  const std::function<void()> wake_driver_;
  const std::unique_ptr<run::Waker> waker_;  // of the cache's thread
  const run::Poller nothing_else_;           // to sleep beside the waker
  bool drives_here_ = false;                 // the cache's thread's

  run::Mutex mutex_;
  std::vector<Asked> asked_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<Ended> ended_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::kv
