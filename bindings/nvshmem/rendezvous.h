// Where PEs that make a team by an identifier find each other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace towpath::nvshmem {

/// Collective, once for each job: its memory.
void prepare_rendezvous();

/// What a PE notes in its place of a new team, which it takes for one of so many members; never 0.
inline std::uint64_t noted(int pe, int members) {
  return static_cast<std::uint64_t>(members) << 32U | (static_cast<std::uint64_t>(pe) + 1);
}

/// The members' PEs, in order, where each place is taken, and all take the team for one of so many
/// as there are; nothing otherwise.
inline std::optional<std::vector<std::int32_t>> members_in(std::span<const std::uint64_t> places) {
  std::vector<std::int32_t> pes;
  for (const std::uint64_t place : places) {
    if (place >> 32U != places.size()) return std::nullopt;
    pes.push_back(static_cast<std::int32_t>(place & 0xffff'ffffU) - 1);
  }
  return pes;
}

}  // namespace towpath::nvshmem
