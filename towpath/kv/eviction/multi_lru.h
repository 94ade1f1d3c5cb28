// Four LRU queues, cold to very hot, by how often a block was used lately (FrequencySketch); who
// goes is the oldest of the coldest queue that has one. Blocks move up when used and down when the
// sketch forgets.
//
// Parameters: the thresholds 3, 8 and 15 between the queues are those of Dynamo's KVBM, so that its
// users find what they know; the sketch's are TinyLFU's.
// Thread: none of its own.
#pragma once

#include <vector>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {

class MultiLru final : public EvictionPolicy {
 public:
  explicit MultiLru(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override { queues_.remove(slot); }
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  SlotQueues::Queue level_of(BlockHash hash) const;
  void cool_down();

  SlotQueues queues_;
  std::vector<BlockHash> hashes_;
  FrequencySketch sketch_;
};

}  // namespace towpath::kv
