// DiskTier: a BlockStore as a tier, whose device moves blocks while the tier's user does other
// things. What the store's directory has of earlier lives is there from the start.
//
//   put:  begin() proven --> waits --> written --> synced with others --> has ended: there for good
//   get:  begin() --> read --> proven --> has ended
//
// One sync serves all puts that were written before it began: it begins when nothing is being
// written that it could wait for, or much has been. Making room, and beginning a segment, wait for
// all that is under way, and are waited for. Thread: that of BlockTier.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv {

class DiskTier final : public BlockTier {
 public:
  /// Writes under way: half of what a device takes at once, so that a read, which somebody waits
  /// for, finds a place.
  static constexpr std::size_t kMostWrites = 32;
  /// Written before a sync begins while others are being written: it costs a disk about the same
  /// for few bytes and for many.
  static constexpr std::uint64_t kSyncBytes = std::uint64_t{16} << 20U;

  /// `options` names the tier, and the BlockDirectory where there is one. `device` as for
  /// BlockStore::open, whose errors these are; invalid_argument (tier 0).
  static Result<std::unique_ptr<DiskTier>> open(sys::FileSystem& files,
                                                const BlockStoreOptions& options,
                                                std::unique_ptr<sys::FileDevice> device = {});
  /// Waits for what is under way. Tasks have ended.
  ~DiskTier() override;

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return index_; }
  std::size_t depth() const noexcept override { return 64; }
  std::size_t put_depth() const noexcept override { return 1024; }
  bool is_leaving(BlockHash hash) const override { return store_->is_leaving(hash); }
  bool may_be_replaced(BlockHash hash) const override { return store_->may_be_replaced(hash); }
  void begin(TierTask& task) override;
  void cancel(TierTask& task) override;
  bool progress() override;
  int wait_fd() const override { return store_->device().wait_fd(); }
  void wait_for_work(Duration most) override { store_->device().wait(most); }
  void checkpoint() override;
  /// Gone at once; in the directory soon. A crash brings the block back until its record is written
  /// and synced; where that failed, until the index is, which is tried when nothing is under way,
  /// again after a sync, after two more, after four, and so on, and at a checkpoint().
  Status remove(BlockHash hash) override;

  BlockStore& store() noexcept { return *store_; }

 private:
  struct Read;
  struct Waiting;
  struct Write;

  DiskTier(std::unique_ptr<BlockStore> store, TierIndex index);

  void begin_get(TierTask& task);
  void begin_put(TierTask& task);
  void end_with_block(TierTask& task);
  bool is_idle() const;
  void drain();

  bool end_reads();
  bool end_writes();
  bool is_being_put(BlockHash hash) const;
  bool is_to_try_again(const Waiting& removal, const Status& written) const;
  void remove_again();
  void note_lost_removal();
  void save_lost_removals();
  bool end_sync();
  bool begin_writes();
  bool begin_next();
  Status find_space(Waiting& what);
  Status begin_write(Waiting& what);
  bool begin_sync();
  static void end_all(std::vector<TierTask*> tasks, const Status& how);

  const std::string name_ = "disk";
  std::unique_ptr<BlockStore> store_;
  const TierIndex index_;
  std::list<Read> reads_;
  std::list<Waiting> waiting_;
  std::vector<Waiting> to_remove_;  ///< again, with the next progress(); nobody waits for them
  bool is_draining_ = false;        // then none is for want of memory
  std::uint64_t rooms_made_ = 0;    // for records that found no space
  std::list<Write> writes_;
  std::vector<TierTask*> written_;  // and not being synced
  std::uint64_t written_bytes_ = 0;
  std::unique_ptr<SegmentSync> sync_;
  std::vector<TierTask*> synced_with_it_;
  bool has_lost_removals_ = false;   // their records, and no index was written since
  std::uint64_t syncs_to_wait_ = 0;  // before the index is written again, which failed
  std::uint64_t next_wait_ = 1;
};

}  // namespace towpath::kv
