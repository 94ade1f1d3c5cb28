#include <towpath/kv/connector/held_blocks.h>

namespace towpath::kv {
namespace {

constexpr std::size_t kKeptEvents = 65536;

}  // namespace

void HeldBlocks::report(BlockEvent::Kind kind, BlockHash hash) {
  if (events_.size() >= 2 * kKeptEvents)
    events_.erase(events_.begin(), events_.begin() + kKeptEvents);
  events_.push_back({.kind = kind, .hash = hash});
}

void HeldBlocks::add(BlockHash hash, std::uint32_t worker, TierIndex tier) {
  Holders& holders = holders_[hash];
  const bool was_held = holders.workers == all_;
  holders.workers |= std::uint64_t{1} << worker;
  holders.tier = tier;
  if (!was_held && holders.workers == all_) report(BlockEvent::Kind::stored, hash);
}

void HeldBlocks::remove(BlockHash hash, std::uint32_t worker) {
  const auto known = holders_.find(hash);
  if (known == holders_.end()) return;
  std::uint64_t& workers = known->second.workers;
  if (workers == all_ && (all_ >> worker & 1U) != 0) report(BlockEvent::Kind::removed, hash);
  workers &= ~(std::uint64_t{1} << worker);
  if (workers == 0) holders_.erase(known);
}

void HeldBlocks::forget(std::uint32_t worker) {
  std::vector<BlockHash> held;
  for (const auto& [hash, holders] : holders_)
    if ((holders.workers >> worker & 1U) != 0) held.push_back(hash);
  for (const BlockHash hash : held) remove(hash, worker);
}

}  // namespace towpath::kv
