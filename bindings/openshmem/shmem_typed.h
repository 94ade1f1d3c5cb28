/* The functions of OpenSHMEM 1.6 that exist for each of several types, or sizes, and for contexts.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One function with the default context, and one with any. */
#define TOWPATH_SHMEM_BOTH(RESULT, NAME, ...) \
  RESULT shmem_##NAME(__VA_ARGS__);           \
  RESULT shmem_ctx_##NAME(shmem_ctx_t ctx, __VA_ARGS__);

/* Put and get -----------------------------------------------------------------------------------*/

#define TOWPATH_SHMEM_RMA(how, NAME, T)                                                          \
  TOWPATH_SHMEM_BOTH(void, NAME##_p, T* dest, T value, int pe)                                   \
  TOWPATH_SHMEM_BOTH(T, NAME##_g, const T* source, int pe)                                       \
  TOWPATH_SHMEM_BOTH(void, NAME##_put, T* dest, const T* source, size_t nelems, int pe)          \
  TOWPATH_SHMEM_BOTH(void, NAME##_get, T* dest, const T* source, size_t nelems, int pe)          \
  TOWPATH_SHMEM_BOTH(void, NAME##_put_nbi, T* dest, const T* source, size_t nelems, int pe)      \
  TOWPATH_SHMEM_BOTH(void, NAME##_get_nbi, T* dest, const T* source, size_t nelems, int pe)      \
  TOWPATH_SHMEM_BOTH(void, NAME##_iput, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst,  \
                     size_t nelems, int pe)                                                      \
  TOWPATH_SHMEM_BOTH(void, NAME##_iget, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst,  \
                     size_t nelems, int pe)                                                      \
  TOWPATH_SHMEM_BOTH(void, NAME##_ibput, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, \
                     size_t bsize, size_t nblocks, int pe)                                       \
  TOWPATH_SHMEM_BOTH(void, NAME##_ibget, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, \
                     size_t bsize, size_t nblocks, int pe)                                       \
  TOWPATH_SHMEM_BOTH(void, NAME##_put_signal, T* dest, const T* source, size_t nelems,           \
                     uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)                    \
  TOWPATH_SHMEM_BOTH(void, NAME##_put_signal_nbi, T* dest, const T* source, size_t nelems,       \
                     uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)
TOWPATH_SHMEM_RMA_TYPES(TOWPATH_SHMEM_RMA, )
#undef TOWPATH_SHMEM_RMA

/* Elements of 8 to 128 bits; `mem`: of a byte each. */
#define TOWPATH_SHMEM_BYTES(NAME)                                                                  \
  TOWPATH_SHMEM_BOTH(void, put##NAME, void* dest, const void* source, size_t nelems, int pe)       \
  TOWPATH_SHMEM_BOTH(void, get##NAME, void* dest, const void* source, size_t nelems, int pe)       \
  TOWPATH_SHMEM_BOTH(void, put##NAME##_nbi, void* dest, const void* source, size_t nelems, int pe) \
  TOWPATH_SHMEM_BOTH(void, get##NAME##_nbi, void* dest, const void* source, size_t nelems, int pe) \
  TOWPATH_SHMEM_BOTH(void, put##NAME##_signal, void* dest, const void* source, size_t nelems,      \
                     uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)                      \
  TOWPATH_SHMEM_BOTH(void, put##NAME##_signal_nbi, void* dest, const void* source, size_t nelems,  \
                     uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)
#define TOWPATH_SHMEM_SIZED(how, BITS, BYTES)                                          \
  TOWPATH_SHMEM_BYTES(BITS)                                                            \
  TOWPATH_SHMEM_BOTH(void, ibput##BITS, void* dest, const void* source, ptrdiff_t dst, \
                     ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)              \
  TOWPATH_SHMEM_BOTH(void, ibget##BITS, void* dest, const void* source, ptrdiff_t dst, \
                     ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)              \
  TOWPATH_SHMEM_BOTH(void, iput##BITS, void* dest, const void* source, ptrdiff_t dst,  \
                     ptrdiff_t sst, size_t nelems, int pe)                             \
  TOWPATH_SHMEM_BOTH(void, iget##BITS, void* dest, const void* source, ptrdiff_t dst,  \
                     ptrdiff_t sst, size_t nelems, int pe)
TOWPATH_SHMEM_BYTES(mem)
TOWPATH_SHMEM_SIZES(TOWPATH_SHMEM_SIZED, )
#undef TOWPATH_SHMEM_BYTES
#undef TOWPATH_SHMEM_SIZED

/* Atomic operations. Those that answer a value answer the one from before; `nbi` puts it into
 * `fetch`. --------------------------------------------------------------------------------------*/

#define TOWPATH_SHMEM_AMO(how, NAME, T)                                                \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_fetch, const T* source, int pe)                  \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_set, T* dest, T value, int pe)                \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_swap, T* dest, T value, int pe)                  \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_fetch_nbi, T* fetch, const T* source, int pe) \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_swap_nbi, T* fetch, T* dest, T value, int pe)
TOWPATH_SHMEM_EXTENDED_AMO_TYPES(TOWPATH_SHMEM_AMO, )
#undef TOWPATH_SHMEM_AMO

#define TOWPATH_SHMEM_AMO(how, NAME, T)                                                        \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_compare_swap, T* dest, T cond, T value, int pe)          \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_inc, T* dest, int pe)                                 \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_add, T* dest, T value, int pe)                        \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_fetch_inc, T* dest, int pe)                              \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_fetch_add, T* dest, T value, int pe)                     \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_compare_swap_nbi, T* fetch, T* dest, T cond, T value, \
                     int pe)                                                                   \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_fetch_inc_nbi, T* fetch, T* dest, int pe)             \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_fetch_add_nbi, T* fetch, T* dest, T value, int pe)
TOWPATH_SHMEM_AMO_TYPES(TOWPATH_SHMEM_AMO, )
#undef TOWPATH_SHMEM_AMO

#define TOWPATH_SHMEM_AMO(OP, NAME, T)                                      \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_##OP, T* dest, T value, int pe)    \
  TOWPATH_SHMEM_BOTH(T, NAME##_atomic_fetch_##OP, T* dest, T value, int pe) \
  TOWPATH_SHMEM_BOTH(void, NAME##_atomic_fetch_##OP##_nbi, T* fetch, T* dest, T value, int pe)
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_SHMEM_AMO, and)
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_SHMEM_AMO, or)
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_SHMEM_AMO, xor)
#undef TOWPATH_SHMEM_AMO
#undef TOWPATH_SHMEM_BOTH

/* Waits and tests: all, any, some. Elements whose status is not 0 are passed over.
 * -----------------*/

#define TOWPATH_SHMEM_WAITS(NAME, T, SUFFIX, WANTED)                                              \
  void shmem_##NAME##_wait_until_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp, \
                                             WANTED);                                             \
  size_t shmem_##NAME##_wait_until_any##SUFFIX(T* ivars, size_t nelems, const int* status,        \
                                               int cmp, WANTED);                                  \
  size_t shmem_##NAME##_wait_until_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,         \
                                                const int* status, int cmp, WANTED);              \
  int shmem_##NAME##_test_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,        \
                                      WANTED);                                                    \
  size_t shmem_##NAME##_test_any##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,     \
                                         WANTED);                                                 \
  size_t shmem_##NAME##_test_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,               \
                                          const int* status, int cmp, WANTED);
#define TOWPATH_SHMEM_WAIT(how, NAME, T)                         \
  void shmem_##NAME##_wait_until(T* ivar, int cmp, T cmp_value); \
  int shmem_##NAME##_test(T* ivar, int cmp, T cmp_value);        \
  TOWPATH_SHMEM_WAITS(NAME, T, , T cmp_value)                    \
  TOWPATH_SHMEM_WAITS(NAME, T, _vector, T* cmp_values)
TOWPATH_SHMEM_WAIT_TYPES(TOWPATH_SHMEM_WAIT, )
#undef TOWPATH_SHMEM_WAIT
#undef TOWPATH_SHMEM_WAITS

/* Collectives on teams
 * ----------------------------------------------------------------------------*/

#define TOWPATH_SHMEM_COLLECTIVES(PREFIX, SUFFIX, T)                                               \
  int shmem_##PREFIX##broadcast##SUFFIX(shmem_team_t team, T* dest, const T* source,               \
                                        size_t nelems, int PE_root);                               \
  int shmem_##PREFIX##collect##SUFFIX(shmem_team_t team, T* dest, const T* source, size_t nelems); \
  int shmem_##PREFIX##fcollect##SUFFIX(shmem_team_t team, T* dest, const T* source,                \
                                       size_t nelems);                                             \
  int shmem_##PREFIX##alltoall##SUFFIX(shmem_team_t team, T* dest, const T* source,                \
                                       size_t nelems);                                             \
  int shmem_##PREFIX##alltoalls##SUFFIX(shmem_team_t team, T* dest, const T* source,               \
                                        ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
#define TOWPATH_SHMEM_COLLECTIVE(how, NAME, T) TOWPATH_SHMEM_COLLECTIVES(NAME##_, , T)
TOWPATH_SHMEM_RMA_TYPES(TOWPATH_SHMEM_COLLECTIVE, )
TOWPATH_SHMEM_COLLECTIVES(, mem, void)
#undef TOWPATH_SHMEM_COLLECTIVE
#undef TOWPATH_SHMEM_COLLECTIVES

#define TOWPATH_SHMEM_REDUCE(OP, NAME, T) \
  int shmem_##NAME##_##OP##_reduce(shmem_team_t team, T* dest, const T* source, size_t nreduce);
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_SHMEM_REDUCE, and)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_SHMEM_REDUCE, or)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_SHMEM_REDUCE, xor)
TOWPATH_SHMEM_RMA_TYPES(TOWPATH_SHMEM_REDUCE, max)
TOWPATH_SHMEM_RMA_TYPES(TOWPATH_SHMEM_REDUCE, min)
TOWPATH_SHMEM_SUM_TYPES(TOWPATH_SHMEM_REDUCE, sum)
TOWPATH_SHMEM_SUM_TYPES(TOWPATH_SHMEM_REDUCE, prod)
#undef TOWPATH_SHMEM_REDUCE

/* Sums of the members up to this one, and before this one: the first has zeros. */
#define TOWPATH_SHMEM_SCAN(how, NAME, T)                                                     \
  int shmem_##NAME##_sum_inscan(shmem_team_t team, T* dest, const T* source, size_t nelems); \
  int shmem_##NAME##_sum_exscan(shmem_team_t team, T* dest, const T* source, size_t nelems);
TOWPATH_SHMEM_SUM_TYPES(TOWPATH_SHMEM_SCAN, )
#undef TOWPATH_SHMEM_SCAN

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
