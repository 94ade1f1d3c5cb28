/* The functions of shmem_old.h, in words of the others. */
#include "door.h"

#undef shmem_sync /* here it is the function */

/* Of longs, where C11 does not choose by type. */
void (shmem_wait)(long* ivar, long cmp_value) { shmem_long_wait(ivar, cmp_value); }
void (shmem_wait_until)(long* ivar, int cmp, long cmp_value) {
  shmem_long_wait_until(ivar, cmp, cmp_value);
}

void start_pes(int npes) {
  int has_begun = 0;
  (void)npes;
  shmem_query_initialized(&has_begun);
  if (has_begun == 0) shmem_init(); /* programs that call it twice end once */
}
int _my_pe(void) { return shmem_my_pe(); }
int _num_pes(void) { return shmem_n_pes(); }
void* shmalloc(size_t size) { return shmem_malloc(size); }
void shfree(void* ptr) { shmem_free(ptr); }
void* shrealloc(void* ptr, size_t size) { return shmem_realloc(ptr, size); }
void* shmemalign(size_t alignment, size_t size) { return shmem_align(alignment, size); }

/* Active sets -----------------------------------------------------------------------------------*/

#define SET_PARAMETERS int PE_start, int logPE_stride, int PE_size
/* What the members of the set do; nothing on others. */
#define ON_SET(CALL)                                                                           \
  do {                                                                                         \
    const shmem_team_t team =                                                                  \
        door_team_of((struct door_set){PE_start, logPE_stride, PE_size}, pSync);               \
    if (team != SHMEM_TEAM_INVALID) door_must(CALL);                                           \
  } while (0)

void shmem_barrier(SET_PARAMETERS, long* pSync) { ON_SET(door_barrier(team)); }
void shmem_sync(SET_PARAMETERS, long* pSync) { ON_SET(door_barrier(team)); }

#define COLLECTIVES(BITS, WIDTH)                                                               \
  void shmem_broadcast##BITS(void* dest, const void* source, size_t nelems, int PE_root,       \
                             SET_PARAMETERS, long* pSync) {                                    \
    ON_SET(door_broadcast_to_others(team, dest, source, door_bytes(nelems, WIDTH), PE_root));  \
  }                                                                                            \
  void shmem_collect##BITS(void* dest, const void* source, size_t nelems, SET_PARAMETERS,      \
                           long* pSync) {                                                      \
    ON_SET(door_collect(team, dest, source, nelems, WIDTH));                                   \
  }                                                                                            \
  void shmem_fcollect##BITS(void* dest, const void* source, size_t nelems, SET_PARAMETERS,     \
                            long* pSync) {                                                     \
    ON_SET(door_collect(team, dest, source, nelems, WIDTH));                                   \
  }                                                                                            \
  void shmem_alltoall##BITS(void* dest, const void* source, size_t nelems, SET_PARAMETERS,     \
                            long* pSync) {                                                     \
    ON_SET(door_alltoall(team, dest, source, door_bytes(nelems, WIDTH)));                      \
  }                                                                                            \
  void shmem_alltoalls##BITS(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst,     \
                             size_t nelems, SET_PARAMETERS, long* pSync) {                     \
    ON_SET(door_alltoalls(team, dest, source, (struct door_strides){dst, sst, WIDTH},          \
                         nelems));                                                             \
  }
COLLECTIVES(32, 4)
COLLECTIVES(64, 8)

/* The type's own reduction, on the team of the set. */
#define TO_ALL(OP, REDUCE, NAME, T)                                                      \
  void shmem_##NAME##_##OP##_to_all(T* dest, const T* source, int nreduce, SET_PARAMETERS, \
                                    T* pWrk, long* pSync) {                              \
    (void)pWrk;                                                                          \
    ON_SET(REDUCE(team, dest, source, (size_t)nreduce));                                 \
  }
#define TO_ALL_BY_NAME(OP, NAME, T) TO_ALL(OP, shmem_##NAME##_##OP##_reduce, NAME, T)
TOWPATH_SHMEM_OLD_ORDERED_TYPES(TO_ALL_BY_NAME, max)
TOWPATH_SHMEM_OLD_ORDERED_TYPES(TO_ALL_BY_NAME, min)
TOWPATH_SHMEM_OLD_SUM_TYPES(TO_ALL_BY_NAME, sum)
TOWPATH_SHMEM_OLD_SUM_TYPES(TO_ALL_BY_NAME, prod)
/* Bits of signed types are reduced under the names of unsigned ones today. */
#define BITS_TO_ALL(OP, KIND, NAME, T, TYPE)                                             \
  void shmem_##NAME##_##OP##_to_all(T* dest, const T* source, int nreduce, SET_PARAMETERS, \
                                    T* pWrk, long* pSync) {                              \
    (void)pWrk;                                                                          \
    ON_SET(door_reduce(team, dest, source,                                               \
                      (struct door_reduction){KIND, TYPE, (size_t)nreduce}));            \
  }
#define BITS_TYPE(T) (sizeof(T) == 2 ? door_uint16 : sizeof(T) == 4 ? door_uint32 : door_uint64)
#define AND_TO_ALL(how, NAME, T) BITS_TO_ALL(and, door_bits_and, NAME, T, BITS_TYPE(T))
#define OR_TO_ALL(how, NAME, T) BITS_TO_ALL(or, door_bits_or, NAME, T, BITS_TYPE(T))
#define XOR_TO_ALL(how, NAME, T) BITS_TO_ALL(xor, door_bits_xor, NAME, T, BITS_TYPE(T))
TOWPATH_SHMEM_OLD_INTEGER_TYPES(AND_TO_ALL, )
TOWPATH_SHMEM_OLD_INTEGER_TYPES(OR_TO_ALL, )
TOWPATH_SHMEM_OLD_INTEGER_TYPES(XOR_TO_ALL, )

/* Atomic operations and waits -------------------------------------------------------------------*/

#define OLD_AMO(how, NAME, T)                                                                  \
  T shmem_##NAME##_fetch(const T* source, int pe) { return shmem_##NAME##_atomic_fetch(source, pe); } \
  void shmem_##NAME##_set(T* dest, T value, int pe) { shmem_##NAME##_atomic_set(dest, value, pe); }   \
  T shmem_##NAME##_swap(T* dest, T value, int pe) {                                            \
    return shmem_##NAME##_atomic_swap(dest, value, pe);                                        \
  }
TOWPATH_SHMEM_OLD_AMO_TYPES(OLD_AMO, )

#define OLD_WORD_AMO(how, NAME, T)                                                             \
  T shmem_##NAME##_cswap(T* dest, T cond, T value, int pe) {                                   \
    return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                          \
  }                                                                                            \
  T shmem_##NAME##_finc(T* dest, int pe) { return shmem_##NAME##_atomic_fetch_inc(dest, pe); } \
  T shmem_##NAME##_fadd(T* dest, T value, int pe) {                                            \
    return shmem_##NAME##_atomic_fetch_add(dest, value, pe);                                   \
  }                                                                                            \
  void shmem_##NAME##_inc(T* dest, int pe) { shmem_##NAME##_atomic_inc(dest, pe); }            \
  void shmem_##NAME##_add(T* dest, T value, int pe) { shmem_##NAME##_atomic_add(dest, value, pe); }
TOWPATH_SHMEM_OLD_WORD_TYPES(OLD_WORD_AMO, )

#define OLD_WAIT(how, NAME, T) \
  void shmem_##NAME##_wait(T* ivar, T cmp_value) { shmem_##NAME##_wait_until(ivar, SHMEM_CMP_NE, cmp_value); }
TOWPATH_SHMEM_OLD_INTEGER_TYPES(OLD_WAIT, )

void shmem_set_cache_inv(void) {}
void shmem_set_cache_line_inv(void* dest) { (void)dest; }
void shmem_clear_cache_inv(void) {}
void shmem_clear_cache_line_inv(void* dest) { (void)dest; }
void shmem_udcflush(void) {}
void shmem_udcflush_line(void* dest) { (void)dest; }
