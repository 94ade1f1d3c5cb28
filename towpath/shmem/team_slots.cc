#include <towpath/shmem/team_slots.h>

namespace towpath::shmem {

std::uint64_t take_team_slot(const JobView& job) noexcept {
  for (std::uint32_t slot = kFirstFreeSlot; slot < kTeamSlots; ++slot) {
    std::uint32_t unused = 0;
    // Acquire: pairs with the release of the last member that left the slot's last team.
    if (job.team(slot).in_use.compare_exchange_strong(unused, 1, std::memory_order_acq_rel)) {
      job.team(slot).gone.store(0, std::memory_order_relaxed);
      return slot;
    }
  }
  return kNoSlot;
}

void leave_team_slot(const JobView& job, std::uint32_t slot, std::uint32_t members) noexcept {
  TeamSlot& team = job.team(slot);
  if (team.gone.fetch_add(1, std::memory_order_acq_rel) + 1 == members)
    team.in_use.store(0, std::memory_order_release);
}

}  // namespace towpath::shmem
