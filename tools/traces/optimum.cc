#include "tools/traces/optimum.h"

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace towpath::traces {
namespace {

constexpr std::size_t kNever = SIZE_MAX;

/// For each use, when the same block is used next.
std::vector<std::size_t> next_uses(std::span<const kv::BlockHash> uses) {
  std::vector<std::size_t> next(uses.size(), kNever);
  std::unordered_map<kv::BlockHash, std::size_t> later;
  for (std::size_t i = uses.size(); i-- > 0;) {
    const auto [known, is_new] = later.try_emplace(uses[i], i);
    if (!is_new) next[i] = std::exchange(known->second, i);
  }
  return next;
}

}  // namespace

std::uint64_t optimum_hits(std::span<const kv::BlockHash> uses, kv::SlotId slots) {
  const std::vector<std::size_t> next = next_uses(uses);
  std::set<std::size_t> kept;  // by next use: no two blocks are used at one time
  std::uint64_t hits = 0;
  for (std::size_t now = 0; now < uses.size(); ++now) {
    hits += kept.erase(now);
    if (next[now] == kNever) continue;
    kept.insert(next[now]);
    if (kept.size() > slots) kept.erase(std::prev(kept.end()));
  }
  return hits;
}

}  // namespace towpath::traces
