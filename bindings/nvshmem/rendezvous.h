// Where PEs that make a team by an identifier find each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace towpath::nvshmem {

/// Collective, once for each job: its memory.
void prepare_rendezvous();

/// What a PE notes in its place of a new team, which it takes for one of so many members; never 0.
inline std::uint64_t noted(int pe, int members) {
  return static_cast<std::uint64_t>(members) << 32U | (static_cast<std::uint64_t>(pe) + 1);
}

/// The PE in a place, and 1; 0: it is empty.
inline std::uint64_t member_in(std::uint64_t place) { return place & 0xffff'ffffU; }
/// Whether each place is taken, and all take the team for one of so many as there are.
inline bool are_of_one_team(std::span<const std::uint64_t> places) {
  return std::ranges::all_of(places,
                             [&](std::uint64_t place) { return place >> 32U == places.size(); });
}

}  // namespace towpath::nvshmem
