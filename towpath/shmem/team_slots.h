// Slots of teams: numbers that no two living teams of a job have. The segment of the host of PE 0
// counts for all hosts.
// Thread: any, any process.
#pragma once

#include <cstdint>

#include <towpath/shmem/job.h>

namespace towpath::shmem {

/// Slots before are those of predefined teams, as in NVSHMEM.
inline constexpr std::uint32_t kFirstFreeSlot = 6;
inline constexpr std::uint64_t kNoSlot = ~std::uint64_t{0};

/// A slot for a new team, or kNoSlot. Called by one member of it.
std::uint64_t take_team_slot(const JobView& job) noexcept;
/// Of each member; the last one gives the slot back.
void leave_team_slot(const JobView& job, std::uint32_t slot, std::uint32_t members) noexcept;

}  // namespace towpath::shmem
