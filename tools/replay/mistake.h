// The mistakes that a replay can be asked to make, to prove that it would notice them.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::tools::replay {

enum class Mistake : std::uint8_t {
  none,
  swap_kv,            ///< a block is made with K and V of a layer swapped
  swap_layer,         ///< ... with two layers swapped
  swap_token,         ///< ... with two tokens swapped
  swap_block,         ///< two blocks are made in each other's place
  flip_bit,           ///< a bit of a block flips in memory, after its digest was taken
  short_file,         ///< the file of the disk tier loses its end
  torn_write,         ///< only the first half of a block reaches the disk
  drop_notification,  ///< prefill does not notify decode that a request is ready
  tier_fails,         ///< a tier below the host's fails to keep a block, or to give it back
};

inline constexpr std::size_t kMistakeKinds = static_cast<std::size_t>(Mistake::tier_fails) + 1;

std::string_view name_of(Mistake mistake) noexcept;
/// Errors: invalid_argument, with the names that --inject takes.
Result<Mistake> mistake_named(std::string_view name);
std::span<const Mistake> all_mistakes() noexcept;

/// Whether it is made in the blocks that prefill has just produced.
bool spoils_production(Mistake mistake) noexcept;
/// Whether decode meets it; prefill meets all others itself.
bool is_met_by_decode(Mistake mistake) noexcept;

/// Makes one of those mistakes in `block`; swap_block also needs `other`.
Status spoil(Mistake mistake, const layout::PhysicalLayout& layout, std::uint64_t block,
             std::uint64_t other);

}  // namespace towpath::tools::replay
