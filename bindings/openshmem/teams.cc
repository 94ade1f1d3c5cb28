// Teams, contexts, active sets.
#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/shmem/team_slots.h>

#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

/// Keeps what was asked for with a new team, which may be none.
shmem_team_t enter(const shmem::Team& team, const shmem_team_config_t* config, long mask) {
  Process& self = process();
  shmem_team_t handle = self.handle_of(team);
  if (handle != SHMEM_TEAM_INVALID)
    self.configure(handle, config != nullptr && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0
                               ? config->num_contexts
                               : 0);
  return handle;
}

int create_context(const shmem::Team& team, shmem_ctx_t* ctx) {
  *ctx = team.is_member() ? process().add_context(team) : SHMEM_CTX_INVALID;
  return *ctx != SHMEM_CTX_INVALID ? 0 : 1;
}

std::vector<std::int32_t> members_of(const door_set& set) {
  std::vector<std::int32_t> pes;
  for (int i = 0; i < set.size; ++i) pes.push_back(set.start + i * (1 << set.log_stride));
  return pes;
}

/// The first member takes a slot for the team, and notifies the others in their pSync.
std::uint32_t agree_on_slot(Process& self, const std::vector<std::int32_t>& pes, long* sync) {
  const auto report = [&](int pe, long value) {
    door_post(SHMEM_CTX_DEFAULT, sync,
              {.op = door_swap, .width = sizeof value, .value = static_cast<std::uint64_t>(value)},
              pe);
  };
  if (pes.front() == self.my_pe()) {
    const auto slot = shmem::Team::take_slot(self.world());
    must(slot.status());
    for (const std::int32_t pe : pes)
      if (pe != self.my_pe()) report(pe, static_cast<long>(*slot) + 1);
    return *slot;
  }
  shmem_long_wait_until(sync, SHMEM_CMP_NE, SHMEM_SYNC_VALUE);
  const long reported = *sync;
  // Below are the predefined teams: a set is none of them.
  if (reported <= static_cast<long>(shmem::kFirstFreeSlot) ||
      reported > static_cast<long>(shmem::kTeamSlots))
    die(error(Code::invalid_argument, cat("a pSync that holds ", reported),
              "set it to SHMEM_SYNC_VALUE on all PEs of the set before"));
  report(self.my_pe(), SHMEM_SYNC_VALUE);
  return static_cast<std::uint32_t>(reported - 1);
}

void check(const door_set& set) {
  const int pes = process().context().n_pes();
  if (set.size >= 1 && set.start >= 0 && set.log_stride >= 0 && set.log_stride < 31 &&
      set.start + (static_cast<std::int64_t>(set.size - 1) << set.log_stride) < pes)
    return;
  die(error(Code::invalid_argument,
            cat("an active set of ", set.size, " PEs from ", set.start, " in steps of 2 to the ",
                set.log_stride, ", in a job of ", pes)));
}

}  // namespace

extern "C" {

int shmem_team_my_pe(shmem_team_t team) { return process().team(team).my_pe(); }
int shmem_team_n_pes(shmem_team_t team) { return process().team(team).n_pes(); }

int shmem_team_translate_pe(shmem_team_t team, int pe, shmem_team_t other) {
  return process().team(team).translate(pe, process().team(other));
}

int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t* config) {
  if (!process().team(team).is_member()) return 1;
  if ((config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0)
    config->num_contexts = process().contexts_of(team);
  return 0;
}

int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size,
                             const shmem_team_config_t* config, long config_mask,
                             shmem_team_t* new_team) {
  *new_team = SHMEM_TEAM_INVALID;
  const auto made =
      process().team(parent).split_strided({.start = start, .stride = stride, .size = size});
  if (answer(made.status()) != 0) return 1;
  *new_team = enter(*made, config, config_mask);
  return 0;
}

int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t* xaxis_config,
                        long xaxis_mask, shmem_team_t* xaxis_team,
                        const shmem_team_config_t* yaxis_config, long yaxis_mask,
                        shmem_team_t* yaxis_team) {
  *xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
  const auto made = process().team(parent).split_2d(xrange);
  if (answer(made.status()) != 0) return 1;
  *xaxis_team = enter(made->x, xaxis_config, xaxis_mask);
  *yaxis_team = enter(made->y, yaxis_config, yaxis_mask);
  return 0;
}

void shmem_team_destroy(shmem_team_t team) {
  if (team == SHMEM_TEAM_INVALID) return;
  shmem_quiet();  // contexts of the team end with it, and what they put is in place
  must(process().team(team).destroy());
  process().configure(team, 0);
}

int shmem_team_sync(shmem_team_t team) { return answer(process().team(team).sync()); }

void* shmem_team_ptr(shmem_team_t team, const void* dest, int pe) {
  const int world_pe = shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD);
  return world_pe >= 0 ? shmem_ptr(dest, world_pe) : nullptr;
}

int shmem_ctx_create(long, shmem_ctx_t* ctx) {
  return create_context(process().context().world(), ctx);
}

int shmem_team_create_ctx(shmem_team_t team, long, shmem_ctx_t* ctx) {
  return create_context(process().team(team), ctx);
}

void shmem_ctx_destroy(shmem_ctx_t ctx) {
  if (ctx == SHMEM_CTX_DEFAULT)
    die(error(Code::invalid_argument, "SHMEM_CTX_DEFAULT cannot be destroyed"));
  if (ctx == SHMEM_CTX_INVALID) return;
  shmem_ctx_quiet(ctx);
  process().remove_context(ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  *team = SHMEM_TEAM_INVALID;
  if (ctx == SHMEM_CTX_INVALID) return 1;
  *team = ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : process().handle_of(ctx->team);
  return 0;
}

void shmem_ctx_session_start(shmem_ctx_t, long, const shmem_ctx_session_config_t*, long) {}
void shmem_ctx_session_stop(shmem_ctx_t) {}

shmem_team_t door_team_of(door_set set, long* sync) {
  Process& self = process();
  check(set);
  if (set.size == self.context().n_pes()) return SHMEM_TEAM_WORLD;
  if (const shmem::Team* known = self.find_set(set)) return self.handle_of(*known);
  const std::vector<std::int32_t> pes = members_of(set);
  if (std::ranges::find(pes, self.my_pe()) == pes.end()) return SHMEM_TEAM_INVALID;
  const std::uint32_t slot = agree_on_slot(self, pes, sync);
  const shmem::Team team = shmem::Team::agreed(self.context().underneath(), slot, pes);
  self.keep_set(set, team);
  return self.handle_of(team);
}

}  // extern "C"
