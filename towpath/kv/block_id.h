// What blocks and the places for them are called, and the policies by which they are evicted.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::kv {

using BlockHash = std::uint64_t;  ///< of a block's tokens and of all before them
using SlotId = std::uint32_t;     ///< a place in a pool
/// Whose blocks they are, where a cache bounds what each may have: tenant_of(). 0: nobody's.
using TenantId = std::uint64_t;

inline constexpr SlotId kNoSlot = UINT32_MAX;

/// Of a block on its way up or down, where nobody says another: the higher, the sooner.
inline constexpr std::uint8_t kUsualPriority = 50;
inline constexpr std::uint8_t kUnhurriedPriority = 10;  ///< of what no request waits for

/// A block as a policy sees it (eviction/policy.h).
struct CachedBlock {
  BlockHash hash = 0;
  std::optional<BlockHash> parent;  ///< the block before it in its prompt; none: the first
  TenantId tenant = 0;
};

/// Which block goes when room is needed.
enum class PolicyKind : std::uint8_t {
  lru,
  fifo,
  s3_fifo,
  lfu,
  multi_lru,
  lineage,
  hit_density,
  adaptive
};

/// As users write it: "s3-fifo".
std::string_view name_of(PolicyKind kind) noexcept;
std::span<const PolicyKind> all_policies() noexcept;
/// Errors: invalid_argument, with the names that there are.
Result<PolicyKind> policy_named(std::string_view name);

}  // namespace towpath::kv
