// What blocks and the places for them are called. Thread: immutable.
#pragma once

#include <cstdint>

namespace towpath::kv {

using BlockHash = std::uint64_t;  ///< of a block's tokens and of all before them
using SlotId = std::uint32_t;     ///< a place in a pool
/// Whose blocks they are, where a cache bounds what each may have: tenant_of(). 0: nobody's.
using TenantId = std::uint64_t;

inline constexpr SlotId kNoSlot = UINT32_MAX;

/// Of a block on its way up or down, where nobody says another: the higher, the sooner.
inline constexpr std::uint8_t kUsualPriority = 50;
inline constexpr std::uint8_t kUnhurriedPriority = 10;  ///< of what no request waits for

}  // namespace towpath::kv
