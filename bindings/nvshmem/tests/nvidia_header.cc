// A program on NVIDIA's own header, as it is: what its inline functions call is in our library.
//   nvidia_header        on every PE of a job
#include <cstdio>
#include <type_traits>

#include <nvshmem_host.h>

int main() {
  nvshmem_init();
  const int me = nvshmem_my_pe(), pes = nvshmem_n_pes();
  auto* values = static_cast<__half*>(nvshmem_calloc(64, sizeof(__half)));
  auto* counts = static_cast<int*>(nvshmem_calloc(64, sizeof(int)));
  bool ok = nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED;
  nvshmem_int_atomic_add(counts, me + 1, 0);
  nvshmemx_half_sum_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, values, values + 1, 1, nullptr);
  nvshmemx_barrier_all_on_stream(nullptr);
  nvshmemx_int_wait_until_on_stream(counts + 1, NVSHMEM_CMP_EQ, 0, nullptr);
  ok = ok && nvshmem_int_g(counts, 0) == pes * (pes + 1) / 2;
  nvshmemx_team_uniqueid_t id = 0;
  ok = ok && nvshmemx_team_get_uniqueid(&id) == 0;
  nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  config.uniqueid = id;
  nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
  ok = ok && nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, 1, 0) == 0 &&
       nvshmem_team_n_pes(team) == 1;
  nvshmem_team_destroy(team);
  ok = ok && nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, values) == nullptr;
  nvshmem_free(counts);
  nvshmem_free(values);
  nvshmem_finalize();
  if (!ok) std::printf("PE %d of %d: not as wanted\n", me, pes);
  return ok ? 0 : 1;
}
