/* What OpenSHMEM has deprecated, and names of before OpenSHMEM: active sets, short names of atomic
 * operations, caches.
 *
 * An active set is a team: it is made when a set is first used, with the first word of `pSync`, and
 * kept. Other words of pSync, and pWrk, are not used. A PE that is no member of the set returns at
 * once: nothing is done there.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 4
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_LE SHMEM_CMP_LE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING

void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);
void* shmalloc(size_t size);
void shfree(void* ptr);
void* shrealloc(void* ptr, size_t size);
void* shmemalign(size_t alignment, size_t size);

/* Active sets: PE_size PEs from PE_start on, 2 to the power of logPE_stride apart. */
#define TOWPATH_SHMEM_SET int PE_start, int logPE_stride, int PE_size
void shmem_barrier(TOWPATH_SHMEM_SET, long* pSync);
void shmem_sync(TOWPATH_SHMEM_SET, long* pSync);
#define TOWPATH_SHMEM_OLD_COLLECTIVES(how, BITS)                                              \
  void shmem_broadcast##BITS(void* dest, const void* source, size_t nelems, int PE_root,      \
                             TOWPATH_SHMEM_SET, long* pSync);                                 \
  void shmem_collect##BITS(void* dest, const void* source, size_t nelems, TOWPATH_SHMEM_SET,  \
                           long* pSync);                                                      \
  void shmem_fcollect##BITS(void* dest, const void* source, size_t nelems, TOWPATH_SHMEM_SET, \
                            long* pSync);                                                     \
  void shmem_alltoall##BITS(void* dest, const void* source, size_t nelems, TOWPATH_SHMEM_SET, \
                            long* pSync);                                                     \
  void shmem_alltoalls##BITS(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,    \
                             size_t nelems, TOWPATH_SHMEM_SET, long* pSync);
TOWPATH_SHMEM_OLD_COLLECTIVES(, 32)
TOWPATH_SHMEM_OLD_COLLECTIVES(, 64)
#undef TOWPATH_SHMEM_OLD_COLLECTIVES

#define TOWPATH_SHMEM_TO_ALL(OP, NAME, T)                                                     \
  void shmem_##NAME##_##OP##_to_all(T* dest, const T* source, int nreduce, TOWPATH_SHMEM_SET, \
                                    T* pWrk, long* pSync);
TOWPATH_SHMEM_OLD_INTEGER_TYPES(TOWPATH_SHMEM_TO_ALL, and)
TOWPATH_SHMEM_OLD_INTEGER_TYPES(TOWPATH_SHMEM_TO_ALL, or)
TOWPATH_SHMEM_OLD_INTEGER_TYPES(TOWPATH_SHMEM_TO_ALL, xor)
TOWPATH_SHMEM_OLD_ORDERED_TYPES(TOWPATH_SHMEM_TO_ALL, max)
TOWPATH_SHMEM_OLD_ORDERED_TYPES(TOWPATH_SHMEM_TO_ALL, min)
TOWPATH_SHMEM_OLD_SUM_TYPES(TOWPATH_SHMEM_TO_ALL, sum)
TOWPATH_SHMEM_OLD_SUM_TYPES(TOWPATH_SHMEM_TO_ALL, prod)
#undef TOWPATH_SHMEM_TO_ALL
#undef TOWPATH_SHMEM_SET

#define TOWPATH_SHMEM_OLD_AMO(how, NAME, T)          \
  T shmem_##NAME##_fetch(const T* source, int pe);   \
  void shmem_##NAME##_set(T* dest, T value, int pe); \
  T shmem_##NAME##_swap(T* dest, T value, int pe);
TOWPATH_SHMEM_OLD_AMO_TYPES(TOWPATH_SHMEM_OLD_AMO, )
#undef TOWPATH_SHMEM_OLD_AMO
#define TOWPATH_SHMEM_OLD_AMO(how, NAME, T)                 \
  T shmem_##NAME##_cswap(T* dest, T cond, T value, int pe); \
  T shmem_##NAME##_finc(T* dest, int pe);                   \
  T shmem_##NAME##_fadd(T* dest, T value, int pe);          \
  void shmem_##NAME##_inc(T* dest, int pe);                 \
  void shmem_##NAME##_add(T* dest, T value, int pe);
TOWPATH_SHMEM_OLD_WORD_TYPES(TOWPATH_SHMEM_OLD_AMO, )
#undef TOWPATH_SHMEM_OLD_AMO

/* Until it is something else than `cmp_value`. */
#define TOWPATH_SHMEM_OLD_WAIT(how, NAME, T) void shmem_##NAME##_wait(T* ivar, T cmp_value);
TOWPATH_SHMEM_OLD_INTEGER_TYPES(TOWPATH_SHMEM_OLD_WAIT, )
#undef TOWPATH_SHMEM_OLD_WAIT
/* Of longs; in C11 the type of `ivar` chooses instead. */
void shmem_wait(long* ivar, long cmp_value);
void shmem_wait_until(long* ivar, int cmp, long cmp_value);

/* Caches are coherent: these do nothing. */
void shmem_set_cache_inv(void);
void shmem_set_cache_line_inv(void* dest);
void shmem_clear_cache_inv(void);
void shmem_clear_cache_line_inv(void* dest);
void shmem_udcflush(void);
void shmem_udcflush_line(void* dest);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
