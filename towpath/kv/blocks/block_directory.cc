#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/dense_table.h>
#include <towpath/kv/blocks/block_directory.h>

namespace towpath::kv {

using run::MutexLock;

namespace {

/// 12 bytes, not 16: there may be millions.
struct Known {
  std::uint32_t low = 0, high = 0;  // halves of the block's hash
  std::uint16_t tiers = 0;
  std::uint16_t tenant = 0;  // its number in Tenants

  static Known of(BlockHash hash) noexcept {
    return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32U), 0, 0};
  }
  bool is_free() const noexcept { return tiers == 0; }
  BlockHash key() const noexcept { return std::uint64_t{high} << 32U | low; }
};

}  // namespace

/// Numbers for tenants, so that a block has its own in the bytes that its entry has left.
class BlockDirectory::Tenants {
 public:
  /// 0, of no tenant, for those beyond what there are numbers for.
  std::uint16_t number_of(TenantId tenant) {
    if (tenant == 0) return 0;
    const MutexLock lock(mutex_);
    const auto known = numbers_.find(tenant);
    if (known != numbers_.end()) return known->second;
    if (ids_.size() > UINT16_MAX) return 0;
    ids_.push_back(tenant);
    return numbers_[tenant] = static_cast<std::uint16_t>(ids_.size() - 1);
  }
  TenantId named(std::uint16_t number) const {
    if (number == 0) return 0;
    const MutexLock lock(mutex_);
    return ids_[number];
  }

 private:
  mutable run::Mutex mutex_;  // after a shard's
  std::vector<TenantId> ids_ TOWPATH_GUARDED_BY(mutex_){0};
  std::unordered_map<TenantId, std::uint16_t> numbers_ TOWPATH_GUARDED_BY(mutex_);
};

// Each on cache lines of its own.
struct alignas(128) BlockDirectory::Shard {
  mutable run::Mutex mutex;
  DenseTable<Known> known TOWPATH_GUARDED_BY(mutex);
  Events news TOWPATH_GUARDED_BY(mutex);

  void report(const BlockEvent& event, std::size_t at_most) TOWPATH_REQUIRES(mutex) {
    if (news.events.size() < std::max(at_most, known.size() / kBlocksPerEvent))
      news.events.push_back(event);
    else
      news.some_were_lost = true;
  }
};

BlockDirectory::BlockDirectory(std::size_t kept_events)
    : kept_per_shard_(std::max<std::size_t>(1, kept_events / kShards)),
      tenants_(std::make_unique<Tenants>()),
      shards_(std::make_unique<Shard[]>(kShards)) {}

BlockDirectory::~BlockDirectory() = default;

BlockDirectory::Shard& BlockDirectory::shard_of(BlockHash hash) const {
  return shards_[(hash * 0x9e3779b97f4a7c15ULL) >> 58U];
}

bool BlockDirectory::add(BlockHash hash, TierIndex tier, std::optional<BlockHash> parent,
                         TenantId tenant) {
  TOWPATH_CHECK(tier < kMaxTiers, "a tier that fits the mask");
  Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  const auto bit = static_cast<std::uint16_t>(1U << tier);
  Known* known = shard.known.find(hash);
  const bool is_here = known != nullptr && (known->tiers & bit) != 0;
  if (known == nullptr) {
    Known fresh = Known::of(hash);
    fresh.tiers = bit;
    known = &shard.known.put(fresh);
  }
  if (known->tenant == 0) known->tenant = tenants_->number_of(tenant);
  if (is_here) return false;
  known->tiers |= bit;
  shard.report({BlockEvent::Kind::stored, tier, hash, parent, tenants_->named(known->tenant)},
               kept_per_shard_);
  has_events_.store(true, std::memory_order_relaxed);
  return true;
}

bool BlockDirectory::remove(BlockHash hash, TierIndex tier) {
  Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  Known* known = shard.known.find(hash);
  const auto bit = static_cast<std::uint16_t>(tier < kMaxTiers ? 1U << tier : 0U);
  if (known == nullptr || !(known->tiers & bit)) return false;
  if (known->tiers == bit)
    shard.known.take_out(known);
  else
    known->tiers = static_cast<std::uint16_t>(known->tiers & ~bit);
  shard.report({BlockEvent::Kind::removed, tier, hash, {}}, kept_per_shard_);
  has_events_.store(true, std::memory_order_relaxed);
  return true;
}

std::uint16_t BlockDirectory::tiers_of(BlockHash hash) const {
  const Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  const Known* known = shard.known.find(hash);
  return known == nullptr ? std::uint16_t{0} : known->tiers;
}

TenantId BlockDirectory::tenant_of(BlockHash hash) const {
  const Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  const Known* known = shard.known.find(hash);
  return known == nullptr ? TenantId{0} : tenants_->named(known->tenant);
}

std::optional<TierIndex> BlockDirectory::fastest(BlockHash hash) const {
  const std::uint16_t tiers = tiers_of(hash);
  if (tiers == 0) return std::nullopt;
  return static_cast<TierIndex>(std::countr_zero(tiers));
}

BlockDirectory::Events BlockDirectory::take_events() {
  Events all;
  has_events_.store(false, std::memory_order_relaxed);  // what comes meanwhile shows it again
  for (std::size_t i = 0; i < kShards; ++i) {
    Events some;
    {
      const MutexLock lock(shards_[i].mutex);
      some = std::exchange(shards_[i].news, {});
    }
    all.events.insert(all.events.end(), some.events.begin(), some.events.end());
    all.some_were_lost = all.some_were_lost || some.some_were_lost;
  }
  return all;
}

std::size_t BlockDirectory::size() const {
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < kShards; ++i) {
    const MutexLock lock(shards_[i].mutex);
    blocks += shards_[i].known.size();
  }
  return blocks;
}

std::vector<BlockEvent> BlockDirectory::snapshot() const {
  std::vector<BlockEvent> all;
  for (std::size_t i = 0; i < kShards; ++i) {
    const MutexLock lock(shards_[i].mutex);
    shards_[i].known.for_each([&](const Known& known) {
      for (TierIndex tier = 0; tier < kMaxTiers; ++tier)
        if (known.tiers & (1U << tier))
          all.push_back(
              {BlockEvent::Kind::stored, tier, known.key(), {}, tenants_->named(known.tenant)});
    });
  }
  return all;
}

}  // namespace towpath::kv
