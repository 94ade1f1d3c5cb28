// Each eviction policy once more, written the shortest way and as slow as that is: what
// policies_test.cc holds the real ones against. For tests only. Thread: one.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/kv/eviction/policy.h>

namespace towpath::kv::testing {

/// Who goes is whoever has the least key: what a policy is, is how it makes keys.
class ByKey : public EvictionPolicy {
 public:
  using Key = std::tuple<std::uint64_t, std::uint64_t>;
  struct Here {
    CachedBlock block;
    std::uint64_t came = 0, used = 0, uses = 0, rank = 0;
  };

  void insert(SlotId slot, const CachedBlock& block) override {
    ++clock_;
    here_[slot] = {block, clock_, clock_, 1, age_ + 1};
  }
  void touch(SlotId slot) override {
    Here& here = here_.at(slot);
    here.used = ++clock_;
    here.rank = age_ + ++here.uses;
  }
  void remove(SlotId slot) override { here_.erase(slot); }
  std::optional<SlotId> victim(const MayGo& may_go) override {
    std::optional<SlotId> least;
    for (const auto& [slot, here] : here_)
      if (may_go(slot) && (!least || key(here) < key(here_.at(*least)))) least = slot;
    if (least) age_ = here_.at(*least).rank;
    return least;
  }

 protected:
  virtual Key key(const Here& here) const = 0;

  std::map<SlotId, Here> here_;
  std::uint64_t clock_ = 0, age_ = 0;
};

class NaiveLru : public ByKey {
  Key key(const Here& here) const override { return {here.used, 0}; }
};

class NaiveFifo : public ByKey {
  Key key(const Here& here) const override { return {here.came, 0}; }
};

class NaiveLfu : public ByKey {
  Key key(const Here& here) const override { return {here.rank, here.used}; }
};

class NaiveLineage : public ByKey {
  Key key(const Here& here) const override {
    const bool is_parent = std::ranges::any_of(
        here_, [&](const auto& other) { return other.second.block.parent == here.block.hash; });
    return {is_parent ? 1 : 0, here.used};
  }
};

/// Queues that are vectors.
class NaiveQueues : public EvictionPolicy {
 public:
  struct Waiting {
    SlotId slot;
    BlockHash hash;
    int uses = 0;
  };
  using Queue = std::vector<Waiting>;

 protected:
  static Queue::iterator find(Queue& queue, SlotId slot) {
    return std::ranges::find(queue, slot, &Waiting::slot);
  }
  static void move_to_back(Queue& from, SlotId slot, Queue& into, int uses) {
    Waiting waiting = *find(from, slot);
    from.erase(find(from, slot));
    waiting.uses = uses;
    into.push_back(waiting);
  }
};

class NaiveS3Fifo : public NaiveQueues {
 public:
  explicit NaiveS3Fifo(SlotId slots)
      : tenth_(std::max<SlotId>(1, slots / 10)), ghosts_(slots - tenth_) {}

  void insert(SlotId slot, const CachedBlock& block) override {
    const auto ghost = std::ranges::find(left_, block.hash);
    const bool known = ghost != left_.end();
    if (known) *ghost = kNobody;
    (known ? main_ : small_).push_back({slot, block.hash});
  }
  void touch(SlotId slot) override {
    for (Queue* queue : {&small_, &main_})
      if (const auto found = find(*queue, slot); found != queue->end())
        found->uses = std::min(found->uses + 1, 3);
  }
  void remove(SlotId slot) override {
    if (const auto found = find(small_, slot); found != small_.end()) {
      if (const auto twin = std::ranges::find(left_, found->hash); twin != left_.end())
        *twin = kNobody;
      left_.push_back(found->hash);
      if (left_.size() > ghosts_) left_.pop_front();
      small_.erase(found);
    } else {
      main_.erase(find(main_, slot));
    }
  }
  std::optional<SlotId> victim(const MayGo& may_go) override {
    const bool small_first = small_.size() >= tenth_ || main_.empty();
    auto slot = small_first ? from_small(may_go) : from_main(may_go);
    if (!slot) slot = small_first ? from_main(may_go) : from_small(may_go);
    return slot;
  }

 private:
  static constexpr BlockHash kNobody = UINT64_MAX;
  std::optional<SlotId> from_small(const MayGo& may_go) {
    const Queue before = small_;
    for (const Waiting& waiting : before) {
      if (waiting.uses > 1)
        move_to_back(small_, waiting.slot, main_, 0);
      else if (may_go(waiting.slot))
        return waiting.slot;
    }
    return std::nullopt;
  }
  std::optional<SlotId> from_main(const MayGo& may_go) {
    for (int round = 0; round < 4; ++round) {
      const Queue before = main_;
      for (const Waiting& waiting : before) {
        if (waiting.uses > 0)
          move_to_back(main_, waiting.slot, main_, waiting.uses - 1);
        else if (may_go(waiting.slot))
          return waiting.slot;
      }
    }
    return std::nullopt;
  }

  const SlotId tenth_;
  const std::size_t ghosts_;
  Queue small_, main_;
  std::deque<BlockHash> left_;
};

class NaiveMultiLru : public NaiveQueues {
 public:
  explicit NaiveMultiLru(SlotId slots) : sketch_(slots) {}

  void insert(SlotId slot, const CachedBlock& block) override { use({slot, block.hash}); }
  void touch(SlotId slot) override {
    for (Queue& level : levels_) {
      if (const auto found = find(level, slot); found != level.end()) {
        const Waiting waiting = *found;
        level.erase(found);
        use(waiting);
        return;
      }
    }
  }
  void remove(SlotId slot) override {
    for (Queue& level : levels_)
      std::erase_if(level, [&](const Waiting& waiting) { return waiting.slot == slot; });
  }
  std::optional<SlotId> victim(const MayGo& may_go) override {
    for (const Queue& level : levels_)
      for (const Waiting& waiting : level)
        if (may_go(waiting.slot)) return waiting.slot;
    return std::nullopt;
  }

 private:
  std::size_t level_of(BlockHash hash) const {
    const int uses = sketch_.estimate(hash);
    return uses >= 15 ? 3 : uses >= 8 ? 2 : uses >= 3 ? 1 : 0;
  }
  void use(const Waiting& waiting) {
    const bool halved = sketch_.count(waiting.hash);
    levels_[level_of(waiting.hash)].push_back(waiting);
    for (std::size_t level = 1; halved && level < 4; ++level) {
      const Queue before = levels_[level];
      for (const Waiting& one : before)
        if (level_of(one.hash) < level)
          move_to_back(levels_[level], one.slot, levels_[level_of(one.hash)], 0);
    }
  }

  std::array<Queue, 4> levels_;
  FrequencySketch sketch_;
};

/// Those that make_naive() makes.
inline constexpr std::array kNaiveKinds{PolicyKind::lru,       PolicyKind::fifo,
                                        PolicyKind::s3_fifo,   PolicyKind::lfu,
                                        PolicyKind::multi_lru, PolicyKind::lineage};

inline std::unique_ptr<EvictionPolicy> make_naive(PolicyKind kind, SlotId slots) {
  switch (kind) {
    case PolicyKind::lru: return std::make_unique<NaiveLru>();
    case PolicyKind::fifo: return std::make_unique<NaiveFifo>();
    case PolicyKind::s3_fifo: return std::make_unique<NaiveS3Fifo>(slots);
    case PolicyKind::lfu: return std::make_unique<NaiveLfu>();
    case PolicyKind::multi_lru: return std::make_unique<NaiveMultiLru>(slots);
    case PolicyKind::lineage: return std::make_unique<NaiveLineage>();
    default: return nullptr;
  }
}

}  // namespace towpath::kv::testing
