// S3-FIFO (Yang et al., SOSP'23): new blocks wait in a small queue, and most leave from there after
// one use. Who was used again moves to the main queue, where each use grants a further round.
// Who left the small queue too early is remembered and comes back into the main queue.
//
// Parameters, all the paper's: a tenth of the slots for the small queue, more than one use to be
// moved, uses counted up to 3, as many ghosts as the main queue has slots.
// Thread: none of its own.
#pragma once

#include <vector>

#include <towpath/kv/eviction/ghosts.h>
#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {

class S3Fifo final : public EvictionPolicy {
 public:
  explicit S3Fifo(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  struct Entry {
    BlockHash hash = 0;
    std::uint8_t uses = 0;
  };
  SlotId pick_small(const MayGo& may_go);
  SlotId pick_main(const MayGo& may_go);

  SlotQueues queues_;
  std::vector<Entry> entries_;
  Ghosts ghosts_;
  const SlotId small_target_;
};

}  // namespace towpath::kv
