// MemoryTier: a tier that is a map, and forgets with its process. For tests only: it replaces
// kinds that are not there yet. Thread: that of BlockTier.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv::testing {

class MemoryTier final : public BlockTier {
 public:
  explicit MemoryTier(TierIndex index, std::size_t depth = 1) : index_(index), depth_(depth) {}

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return index_; }
  std::size_t depth() const noexcept override { return depth_; }
  bool must_be_asked() const noexcept override { return true; }
  void begin(TierTask& task) override {
    EXPECT_LT(under_way.size(), depth_) << "more than it takes";
    if (on_begin) on_begin(task);
    under_way.push_back(&task);
    if (!is_slow && !waits_for_company) (void)progress();
  }
  /// Of a slow one a test says when tasks end: with let_go().
  void let_go(std::size_t number) {
    TierTask& task = *under_way.at(number);
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(number));
    task.end(done(task));
  }
  void cancel(TierTask& task) override {
    if (on_cancel) on_cancel();
    if (std::erase(under_way, &task) > 0) task.end(error(Code::cancelled, "a test's"));
  }
  bool progress() override {
    if (on_progress) on_progress();
    while (!is_slow && !under_way.empty()) let_go(0);
    return false;
  }
  Status remove(BlockHash hash) override {
    block_directory->remove(hash, index_);
    return blocks.erase(hash) != 0 ? Status() : error(Code::not_found, "no such block");
  }

  struct Kept {
    Digest digest;
    Bytes bytes;
    std::optional<BlockHash> parent{};
  };
  std::map<BlockHash, Kept> blocks;
  std::vector<TierTask*> under_way;
  bool is_slow = false;
  bool waits_for_company = false;  ///< what is begun waits until the next progress()
  std::function<void(const TierTask&)> on_begin;
  std::function<Status(const TierTask&)> refuse;  ///< what it does not do, and why
  std::function<void()> on_progress, on_cancel;
  BlockDirectory* block_directory = nullptr;

 private:
  Status done(TierTask& task) {
    if (refuse) {
      if (Status refused = refuse(task); !refused.ok()) return refused;
    }
    if (task.kind == TierTask::Kind::put) {
      if (digest_of(task.bytes, task.digest.salt, task.digest.algorithm) != task.digest)
        return error(Code::corrupt, "the bytes do not match");
      blocks[task.hash] = {task.digest, {task.bytes.begin(), task.bytes.end()}};
      block_directory->add(task.hash, index_);
      return {};
    }
    const auto found = blocks.find(task.hash);
    if (found == blocks.end()) return error(Code::not_found, "no such block");
    task.digest = found->second.digest;
    if (!task.parent) task.parent = found->second.parent;
    if (task.kind == TierTask::Kind::look) block_directory->add(task.hash, index_);
    std::ranges::copy(
        task.kind == TierTask::Kind::get ? ConstByteSpan(found->second.bytes) : ConstByteSpan(),
        task.bytes.begin());
    return {};
  }

  const std::string name_ = "memory (a test's)";
  const TierIndex index_;
  const std::size_t depth_;
};

}  // namespace towpath::kv::testing
