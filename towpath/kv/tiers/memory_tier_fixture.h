// MemoryTier: a tier that is a map, and forgets with its process. For tests only: it stands in for
// kinds that are not there yet. Thread: that of BlockTier.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv::testing {

class MemoryTier final : public BlockTier {
 public:
  explicit MemoryTier(TierIndex index) : index_(index) {}

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return index_; }
  Status put(BlockHash hash, const Digest& digest, ConstByteSpan bytes) override {
    if (digest_of(bytes, digest.salt, digest.algorithm) != digest)
      return error(Code::corrupt, "the bytes do not match");
    blocks[hash] = {digest, {bytes.begin(), bytes.end()}};
    fresh_.push_back(hash);
    if (on_put) on_put();
    return {};
  }
  Status acknowledge() override {
    for (const BlockHash hash : fresh_) presence->add(hash, index_);
    fresh_.clear();
    return {};
  }
  Result<Digest> get(BlockHash hash, ByteSpan into) override {
    const auto found = blocks.find(hash);
    if (found == blocks.end()) return error(Code::not_found, "no such block");
    std::ranges::copy(found->second.bytes, into.begin());
    return found->second.digest;
  }
  Status remove(BlockHash hash) override {
    presence->remove(hash, index_);
    return blocks.erase(hash) != 0 ? Status() : error(Code::not_found, "no such block");
  }

  struct Kept {
    Digest digest;
    Bytes bytes;
  };
  std::map<BlockHash, Kept> blocks;
  std::function<void()> on_put;
  Presence* presence = nullptr;

 private:
  const std::string name_ = "memory (a test's)";
  const TierIndex index_;
  std::vector<BlockHash> fresh_;
};

}  // namespace towpath::kv::testing
