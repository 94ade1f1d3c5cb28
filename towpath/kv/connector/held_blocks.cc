#include <algorithm>

#include <towpath/kv/connector/held_blocks.h>

namespace towpath::kv {
namespace {

constexpr std::size_t kMostEvents = 131072;
// A worker that begins anew, and all blocks with it: each ceases to last, and to be held, then is
// held again, and lasts.
constexpr std::size_t kMostPerBlock = 4;

}  // namespace

void HeldBlocks::report(const Event& event) {
  if (events_.size() >= std::max(kMostEvents, kMostPerBlock * most_held_))
    events_.erase(events_.begin(),
                  events_.begin() + static_cast<std::ptrdiff_t>(events_.size() / 2));
  std::size_t& count = event.is_lasting ? lasting_ : held_;
  event.kind == BlockEvent::Kind::stored ? ++count : --count;
  most_held_ = std::max(most_held_, held_);
  events_.push_back(event);
}

void HeldBlocks::add(BlockHash hash, std::uint32_t worker, TierIndex tier, bool is_lasting) {
  Holders& holders = holders_[hash];
  const bool was_held = holders.workers == all_;
  const bool did_last = holders.lasting == all_;
  const std::uint64_t its = std::uint64_t{1} << worker;
  if (const auto doubted = doubted_.find(worker); doubted != doubted_.end())
    doubted->second.erase(hash);
  holders.workers |= its;
  holders.lasting = is_lasting ? holders.lasting | its : holders.lasting & ~its;
  holders.tier = tier;
  if (!was_held && holders.workers == all_) report({BlockEvent::Kind::stored, hash});
  const bool lasts = holders.lasting == all_;
  if (lasts != did_last)
    report({lasts ? BlockEvent::Kind::stored : BlockEvent::Kind::removed, hash, true});
}

void HeldBlocks::remove(BlockHash hash, std::uint32_t worker) {
  const auto known = holders_.find(hash);
  if (known == holders_.end()) return;
  auto& [workers, lasting, tier] = known->second;
  if ((all_ >> worker & 1U) != 0) {
    if (lasting == all_) report({BlockEvent::Kind::removed, hash, true});
    if (workers == all_) report({BlockEvent::Kind::removed, hash});
  }
  workers &= ~(std::uint64_t{1} << worker);
  lasting &= workers;
  if (workers == 0) holders_.erase(known);
}

void HeldBlocks::doubt(std::uint32_t worker) {
  std::unordered_set<BlockHash>& doubted = doubted_[worker];
  for (const auto& [hash, holders] : holders_)
    if ((holders.workers >> worker & 1U) != 0) doubted.insert(hash);
}

void HeldBlocks::forget_doubted(std::uint32_t worker) {
  const auto doubted = doubted_.extract(worker);
  if (doubted.empty()) return;
  for (const BlockHash hash : doubted.mapped()) remove(hash, worker);
}

}  // namespace towpath::kv
