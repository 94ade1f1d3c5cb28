// ObjectTier: blocks in an object store, an object each, moved by an agent that has a backend for
// objects.
//
//   BUCKET, key PREFIX/0123456789abcdef:   | record, a page | the block's bytes |
//
// The key is the block's hash; the object is a record as segments have them (segment_format.h), so
// it says itself which block it is, how long, and of which digest: bytes of another block, cut off
// or damaged, are never taken. Others may fill the same prefix: equal hashes, equal bytes.
//
// A store takes objects whole and an agent removes none: a block that is removed is put over with a
// record that says so. With a bucket (object_index.h) it is removed, and the tier has a bound, over
// all its lives: what exceeds it goes, as the policy says (object_index.h). Each task has a slot
// of registered memory, through which its bytes are copied; only proven ones leave it. Thread: that
// of BlockTier. The agent may be driven elsewhere besides.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/tiers/block_tier.h>
#include <towpath/kv/tiers/object_index.h>

namespace towpath::kv {

struct ObjectTierOptions {
  agent::Agent* agent = nullptr;  ///< outlives the tier
  std::string bucket;             ///< empty: the backend's own
  std::string prefix = "kv";      ///< of one model, share and shape: hashes do not distinguish them
  std::uint64_t block_bytes = 0;  ///< of every block
  std::size_t depth = 8;          ///< tasks under way at once; each has memory for a block
  Duration timeout = std::chrono::seconds(30);  ///< of each, and of a put's waiting for its place
  BlockDirectory* block_directory = nullptr;    ///< outlives the tier
  TierIndex tier = 0;
  std::uint64_t bound_bytes = 0;  ///< of all objects together; needs a bucket and a clock; 0: none
  const Clock* clock = nullptr;   ///< outlives the tier
  PolicyKind policy = PolicyKind::lru;  ///< who goes, with a bound
};

/// What a block's object takes.
constexpr std::uint64_t object_bytes_of(std::uint64_t block_bytes) {
  return kSegmentPage + block_bytes;
}

class ObjectTier final : public BlockTier {
 public:
  /// Asks nothing of the store. Errors: invalid_argument (options), exhausted (memory), unsupported
  /// (the agent has no backend for objects).
  static Result<std::unique_ptr<ObjectTier>> open(const ObjectTierOptions& options,
                                                  std::unique_ptr<ObjectBucket> bucket = {});
  ~ObjectTier() override;

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return options_.tier; }
  std::size_t depth() const noexcept override { return options_.depth; }
  bool must_be_asked() const noexcept override { return true; }
  std::optional<TierCapacity> room() const override;
  void begin(TierTask& task) override;
  void cancel(TierTask& task) override;
  bool progress() override;
  void wait_for_work(Duration most) override;
  /// In this process at once; in the store soon, if this process lives on.
  Status remove(BlockHash hash) override;

  std::string key_of(BlockHash hash) const;

 private:
  /// Memory for a task, or for a removal, and its transfer.
  struct Slot {
    ByteSpan memory;  // a page, and room for a block
    bool is_busy = false;
    TierTask* task = nullptr;  // null: a removal
    BlockHash hash = 0;
    bool is_posted = false;
    Instant deadline = Instant::never();  // of its waiting
    ObjectIndex::Place place;
    memory::Registration object;
    agent::Transfer transfer;
  };

  explicit ObjectTier(ObjectTierOptions options) : options_(std::move(options)) {}

  ByteSpan page_of(const Slot& slot) const { return slot.memory.first(kSegmentPage); }
  ByteSpan bytes_of(const Slot& slot) const { return slot.memory.subspan(kSegmentPage); }
  Status prepare(Slot& slot) const;
  bool is_being_removed(BlockHash hash) const;
  Result<bool> may_start(Slot& slot);
  void start(Slot& slot);
  Status post(Slot& slot, TransferOp op, std::uint64_t length);
  void finish(Slot& slot);
  void finish_put(Slot& slot, const Status& how);
  void lose(BlockHash hash, Code why, bool is_damaged);
  Status reported(Slot& slot) const;
  Status reported_by_page(Slot& slot, const Status& how) const;
  Status prove(Slot& slot) const;
  void end(Slot& slot, Status how);
  void begin_removals();

  const std::string name_ = "object";
  const ObjectTierOptions options_;
  memory::SharedRegion memory_;
  memory::Registration registration_;
  std::unique_ptr<ObjectIndex> index_;  // none: there is no bound
  std::vector<Slot> slots_;             // the last is for removals without one
  std::deque<BlockHash> to_remove_;
};

}  // namespace towpath::kv
