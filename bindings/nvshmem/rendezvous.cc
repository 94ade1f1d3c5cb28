// Teams of PEs that have an identifier in common, and nothing else.
//
// The identifier names a PE, and one of its rows: there each member notes who it is. The last one
// to come takes a slot for the team, and sends it to all of them with the list, into a letter box
// of each. So nobody asks another PE twice, and each waits in its own memory. Where two come for
// one place in the team, the second one is noted in another: there is no team, and all hear of it.
// So it is where one passes another count of members: those that have come by then hear of it.
#include "bindings/nvshmem/rendezvous.h"

#include <towpath/core/format.h>
#include <towpath/run/mutex.h>

#include "bindings/nvshmem/nvshmem_host.h"
#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

constexpr std::uint64_t kRows = 16;  // identifiers of one PE that are under way
constexpr std::uint64_t kNoTeam = ~std::uint64_t{0};
constexpr std::uint64_t kPlaceTaken = kNoTeam - 1, kOtherCounts = kNoTeam - 2;
/// In the first word of a row, above the count of those that have come: some found their places
/// taken.
constexpr std::uint64_t kHasTwice = std::uint64_t{1} << 32U;
constexpr long kByIdentifier = 2;

std::uint64_t* letters = nullptr;  // a letter box, then the rows: a word, and one for each PE

run::Mutex one_at_a_time;  // there is one letter box

std::uint64_t row_words() { return 1 + static_cast<std::uint64_t>(process().context().n_pes()); }
std::uint64_t* row_of(std::uint64_t id) { return letters + (1 + id % kRows) * row_words(); }

std::uint64_t change(std::uint64_t* at, door_atomic_op op, std::uint64_t value, int pe) {
  return door_change(SHMEM_CTX_DEFAULT, at,
                     {.op = op, .width = sizeof value, .value = value, .cond = 0}, pe);
}

std::uint64_t slot_of_new_team(bool has_twice) {
  if (has_twice) return kPlaceTaken;
  const auto slot = shmem::Team::take_slot(process().world());
  return answer(slot.status()) == 0 ? *slot + std::uint64_t{1} : kNoTeam;
}

/// Notes this PE in a row: in its own place, or in the next one that is free, so that it hears,
/// too. How many of the `members` places were taken.
int take_place(std::uint64_t* row, int host, int own, int members) {
  const std::uint64_t me = nvshmem::noted(process().my_pe(), members);
  int taken = 0;
  while (taken < members &&
         change(row + 1 + (own + taken) % members, door_compare_swap, me, host) != 0)
    ++taken;
  return taken;
}

/// By the last member: takes the row of `host`, and sends everyone in it the slot and the list.
void invite(std::uint64_t* row, int host, bool has_twice) {
  std::vector<std::uint64_t> places(row_words() - 1);
  door_get(SHMEM_CTX_DEFAULT, places.data(), row + 1, places.size() * sizeof places[0], host);
  while (!places.empty() && places.back() == 0) places.pop_back();
  const std::size_t bytes = places.size() * sizeof places[0];
  const std::vector<std::uint64_t> none(places.size());
  door_put(SHMEM_CTX_DEFAULT, row + 1, none.data(), bytes, host);
  (void)change(row, door_swap, 0, host);
  const std::uint64_t reported =
      nvshmem::are_of_one_team(places) ? slot_of_new_team(has_twice) : kOtherCounts;
  std::ranges::transform(places, places.begin(), nvshmem::member_in);
  for (const std::uint64_t pe : places)
    if (pe != 0)
      door_put_signal(SHMEM_CTX_DEFAULT, letters + 1, places.data(), bytes,
                      {.word = letters, .value = reported, .op = SHMEM_SIGNAL_SET},
                      static_cast<int>(pe - 1));
}

}  // namespace

void nvshmem::prepare_rendezvous() {
  letters =
      static_cast<std::uint64_t*>(shmem_calloc((1 + kRows) * row_words(), sizeof(std::uint64_t)));
}

extern "C" {

int nvshmemx_team_get_uniqueid(std::uint64_t* uniqueid) {
  if (uniqueid == nullptr || letters == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  static std::atomic<std::uint32_t> given = 0;
  const auto me = static_cast<std::uint64_t>(process().my_pe());
  *uniqueid = me << 32U | (given++ % kRows);
  return 0;
}

int nvshmemx_team_init(nvshmem_team_t* team, nvshmem_team_config_t* config, long config_mask,
                       int npes, int pe_idx_in_team) {
  if (team == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  *team = NVSHMEM_TEAM_INVALID;
  Process& self = process();
  const int all = self.context().n_pes();
  const auto host = config != nullptr ? config->uniqueid >> 32U : kNoTeam;
  if ((config_mask & kByIdentifier) == 0 || host >= static_cast<std::uint64_t>(all) || npes < 1 ||
      npes > all || pe_idx_in_team < 0 || pe_idx_in_team >= npes || letters == nullptr) {
    (void)answer(error(Code::invalid_argument,
                       cat("a team of ", npes, " PEs, of which this is ", pe_idx_in_team),
                       "pass what nvshmemx_team_get_uniqueid() gave, and its bit in the mask"));
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  const run::MutexLock lock(one_at_a_time);
  std::uint64_t* const row = row_of(config->uniqueid);
  const int at = static_cast<int>(host);
  const int taken = take_place(row, at, pe_idx_in_team, npes);
  std::uint64_t reported = kPlaceTaken;
  std::vector<std::int32_t> pes;
  if (taken < npes) {
    const std::uint64_t mine = taken > 0 ? 1 + kHasTwice : 1;
    const std::uint64_t came = change(row, door_add, mine, at) + mine;
    if (came % kHasTwice == static_cast<std::uint64_t>(npes)) invite(row, at, came > kHasTwice);
    shmem_uint64_wait_until(letters, SHMEM_CMP_NE, 0);
    reported = *letters;
    for (int i = 0; i < npes; ++i) pes.push_back(static_cast<std::int32_t>(letters[1 + i]) - 1);
    (void)change(letters, door_swap, 0, self.my_pe());
  }
  if (reported == kPlaceTaken) {
    (void)answer(error(Code::already_exists,
                       cat("two PEs came for one place in a new team of ", npes, " PEs"),
                       "pass each member's own place in the team"));
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  if (reported == kOtherCounts) {
    (void)answer(
        error(Code::invalid_argument,
              cat("a new team of ", npes, " PEs, or of another count as others of them say"),
              "pass the same count on all members"));
    return NVSHMEMX_ERROR_INVALID_VALUE;
  }
  if (reported == kNoTeam) return NVSHMEMX_ERROR_INTERNAL;
  const auto made = shmem::Team::agreed(self.context().underneath(),
                                        static_cast<std::uint32_t>(reported - 1), std::move(pes));
  self.configure(self.handle_of(made), config->num_contexts);
  *team = made.raw();
  return 0;
}

}  // extern "C"
