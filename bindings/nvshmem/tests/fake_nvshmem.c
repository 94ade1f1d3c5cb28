/* Libraries with NVSHMEM's name that cannot be used, for the tests of who opens them. They are fakes: no call
 * does anything.
 *
 * FAKE_VARIANT 1: without the functions that do the initialisation, as before NVSHMEM 2.11
 *              2: of another major version
 *              3: its initialisation comes no further than its bootstrap
 */
#include <stddef.h>
#include <stdint.h>

static int ended;

#if FAKE_VARIANT != 1
int nvshmemx_hostlib_init_attr(unsigned flags, void* attributes) { return (void)flags, (void)attributes, 0; }
void nvshmemx_hostlib_finalize(void) { ended = 1; }
#endif
int nvshmemx_init_status(void) { return FAKE_VARIANT == 3 && !ended ? 1 : 0; }
int nvshmemx_get_uniqueid(void* id) { return (void)id, 7; }
void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = FAKE_VARIANT == 2 ? 2 : 3;
  *minor = *patch = 0;
}
int nvshmem_my_pe(void) { return 0; }
int nvshmem_n_pes(void) { return 1; }
void* nvshmem_malloc(size_t size) { return (void)size, NULL; }
void nvshmem_free(void* at) { (void)at; }
void nvshmem_putmem(void* to, const void* from, size_t bytes, int pe) { (void)to, (void)from, (void)bytes, (void)pe; }
void nvshmem_getmem(void* to, const void* from, size_t bytes, int pe) { (void)to, (void)from, (void)bytes, (void)pe; }
void nvshmem_quiet(void) {}
void nvshmem_fence(void) {}
void nvshmem_barrier_all(void) {}
void nvshmem_sync_all(void) {}
int nvshmem_team_split_strided(int32_t parent, int start, int stride, int size, const void* config, long mask,
                               int32_t* made) {
  return (void)parent, (void)start, (void)stride, (void)size, (void)config, (void)mask, (void)made, 1;
}
void nvshmem_team_destroy(int32_t team) { (void)team; }
int nvshmem_team_my_pe(int32_t team) { return (void)team, 0; }
int nvshmem_team_n_pes(int32_t team) { return (void)team, 1; }
int nvshmem_team_translate_pe(int32_t team, int pe, int32_t other) { return (void)team, (void)other, pe; }
