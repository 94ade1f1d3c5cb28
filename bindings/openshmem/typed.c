/* The functions of shmem_typed.h. */
#include "door.h"

#define UNPACK(...) __VA_ARGS__
#define BOTH(RESULT, NAME, PARAMETERS, BODY)                        \
  RESULT shmem_ctx_##NAME(shmem_ctx_t ctx, UNPACK PARAMETERS) BODY  \
  RESULT shmem_##NAME PARAMETERS {                                  \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                      \
    BODY                                                            \
  }

/* A value as the low bytes of a word, and back. */
#define BITS_OF(T, VALUE)      \
  (((union {                   \
     T value;                  \
     uint64_t bits;            \
   }){.value = (VALUE)})       \
       .bits)
#define VALUE_OF(T, BITS)     \
  (((union {                  \
     uint64_t bits;           \
     T value;                 \
   }){.bits = (BITS)})        \
       .value)

_Static_assert(sizeof(long) == 8, "long is a word of 64 bits wherever this is built");

/* Put and get -----------------------------------------------------------------------------------*/

#define PUT_AND_GET(PUT, GET, T, WIDTH)                                                        \
  BOTH(void, PUT, (T* dest, const T* source, size_t nelems, int pe),                           \
       { door_put(ctx, dest, source, door_bytes(nelems, WIDTH), pe); })                        \
  BOTH(void, PUT##_nbi, (T* dest, const T* source, size_t nelems, int pe),                     \
       { door_put(ctx, dest, source, door_bytes(nelems, WIDTH), pe); })                        \
  BOTH(void, GET, (T* dest, const T* source, size_t nelems, int pe),                           \
       { door_get(ctx, dest, source, door_bytes(nelems, WIDTH), pe); })                        \
  BOTH(void, GET##_nbi, (T* dest, const T* source, size_t nelems, int pe),                     \
       { door_get(ctx, dest, source, door_bytes(nelems, WIDTH), pe); })                        \
  BOTH(void, PUT##_signal,                                                                     \
       (T* dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal,          \
        int sig_op, int pe),                                                                   \
       {                                                                                       \
         door_put_signal(ctx, dest, source, door_bytes(nelems, WIDTH),                         \
                         (struct door_signal){sig_addr, signal, sig_op}, pe);                  \
       })                                                                                      \
  BOTH(void, PUT##_signal_nbi,                                                                 \
       (T* dest, const T* source, size_t nelems, uint64_t* sig_addr, uint64_t signal,          \
        int sig_op, int pe),                                                                   \
       {                                                                                       \
         door_put_signal(ctx, dest, source, door_bytes(nelems, WIDTH),                         \
                         (struct door_signal){sig_addr, signal, sig_op}, pe);                  \
       })
#define STRIDED(PUT, GET, T, WIDTH)                                                            \
  BOTH(void, PUT,                                                                              \
       (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),        \
       { door_iput(ctx, dest, source, (struct door_strides){dst, sst, WIDTH}, nelems, pe); })  \
  BOTH(void, GET,                                                                              \
       (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe),        \
       { door_iget(ctx, dest, source, (struct door_strides){dst, sst, WIDTH}, nelems, pe); })

#define BLOCKS(PUT, GET, T, WIDTH)                                                              \
  BOTH(void, PUT,                                                                              \
       (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks,  \
        int pe),                                                                               \
       {                                                                                       \
         door_ibput(ctx, dest, source, (struct door_strides){dst, sst, WIDTH},                 \
                    (struct door_blocks){bsize, nblocks}, pe);                                 \
       })                                                                                      \
  BOTH(void, GET,                                                                              \
       (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks,  \
        int pe),                                                                               \
       {                                                                                       \
         door_ibget(ctx, dest, source, (struct door_strides){dst, sst, WIDTH},                 \
                    (struct door_blocks){bsize, nblocks}, pe);                                 \
       })

#define RMA(how, NAME, T)                                          \
  BOTH(void, NAME##_p, (T * dest, T value, int pe),                \
       { door_put(ctx, dest, &value, sizeof(T), pe); })            \
  BOTH(T, NAME##_g, (const T* source, int pe), {                   \
    T value;                                                       \
    door_get(ctx, &value, source, sizeof(T), pe);                  \
    return value;                                                  \
  })                                                               \
  PUT_AND_GET(NAME##_put, NAME##_get, T, sizeof(T))                \
  STRIDED(NAME##_iput, NAME##_iget, T, sizeof(T))                  \
  BLOCKS(NAME##_ibput, NAME##_ibget, T, sizeof(T))
TOWPATH_SHMEM_RMA_TYPES(RMA, )

#define SIZED(how, BITS, BYTES)                    \
  PUT_AND_GET(put##BITS, get##BITS, void, BYTES)   \
  STRIDED(iput##BITS, iget##BITS, void, BYTES)     \
  BLOCKS(ibput##BITS, ibget##BITS, void, BYTES)
TOWPATH_SHMEM_SIZES(SIZED, )
PUT_AND_GET(putmem, getmem, void, 1)

/* Atomic operations -----------------------------------------------------------------------------*/

#define CHANGE(T, OP, VALUE, COND) \
  (struct door_atomic) { OP, sizeof(T), BITS_OF(T, VALUE), BITS_OF(T, COND) }
#define POST(T, AT, OP, VALUE) door_post(ctx, AT, CHANGE(T, OP, VALUE, 0), pe)
#define ATOMIC(T, AT, OP, VALUE, COND) \
  VALUE_OF(T, door_change(ctx, AT, CHANGE(T, OP, VALUE, COND), pe))

#define AMO(how, NAME, T)                                                                \
  BOTH(T, NAME##_atomic_fetch, (const T* source, int pe),                                \
       { return ATOMIC(T, source, door_load, 0, 0); })                                   \
  BOTH(void, NAME##_atomic_set, (T * dest, T value, int pe),                             \
       { POST(T, dest, door_swap, value); })                                  \
  BOTH(T, NAME##_atomic_swap, (T * dest, T value, int pe),                               \
       { return ATOMIC(T, dest, door_swap, value, 0); })                                 \
  BOTH(void, NAME##_atomic_fetch_nbi, (T * fetch, const T* source, int pe),              \
       { *fetch = ATOMIC(T, source, door_load, 0, 0); })                                 \
  BOTH(void, NAME##_atomic_swap_nbi, (T * fetch, T * dest, T value, int pe),             \
       { *fetch = ATOMIC(T, dest, door_swap, value, 0); })
TOWPATH_SHMEM_EXTENDED_AMO_TYPES(AMO, )

#define WORD_AMO(how, NAME, T)                                                               \
  BOTH(T, NAME##_atomic_compare_swap, (T * dest, T cond, T value, int pe),                   \
       { return ATOMIC(T, dest, door_compare_swap, value, cond); })                          \
  BOTH(void, NAME##_atomic_inc, (T * dest, int pe),                                          \
       { POST(T, dest, door_add, 1); })                                           \
  BOTH(void, NAME##_atomic_add, (T * dest, T value, int pe),                                 \
       { POST(T, dest, door_add, value); })                                       \
  BOTH(T, NAME##_atomic_fetch_inc, (T * dest, int pe),                                       \
       { return ATOMIC(T, dest, door_add, 1, 0); })                                          \
  BOTH(T, NAME##_atomic_fetch_add, (T * dest, T value, int pe),                              \
       { return ATOMIC(T, dest, door_add, value, 0); })                                      \
  BOTH(void, NAME##_atomic_compare_swap_nbi, (T * fetch, T * dest, T cond, T value, int pe), \
       { *fetch = ATOMIC(T, dest, door_compare_swap, value, cond); })                        \
  BOTH(void, NAME##_atomic_fetch_inc_nbi, (T * fetch, T * dest, int pe),                     \
       { *fetch = ATOMIC(T, dest, door_add, 1, 0); })                                        \
  BOTH(void, NAME##_atomic_fetch_add_nbi, (T * fetch, T * dest, T value, int pe),            \
       { *fetch = ATOMIC(T, dest, door_add, value, 0); })
TOWPATH_SHMEM_AMO_TYPES(WORD_AMO, )

#define BITS_AMO(OP, NAME, T)                                                       \
  BOTH(void, NAME##_atomic_##OP, (T * dest, T value, int pe),                       \
       { POST(T, dest, door_##OP, value); })                             \
  BOTH(T, NAME##_atomic_fetch_##OP, (T * dest, T value, int pe),                    \
       { return ATOMIC(T, dest, door_##OP, value, 0); })                            \
  BOTH(void, NAME##_atomic_fetch_##OP##_nbi, (T * fetch, T * dest, T value, int pe), \
       { *fetch = ATOMIC(T, dest, door_##OP, value, 0); })
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, and)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, or)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, xor)

/* Waits and tests -------------------------------------------------------------------------------*/

#define WANTED(T, ARE_MANY, VALUES) \
  (struct door_wanted) { ivars, nelems, status, cmp, VALUES, ARE_MANY, DOOR_TYPE(T) }
#define WAITS(NAME, T, SUFFIX, ARE_MANY, PARAMETER, VALUES)                                       \
  void shmem_##NAME##_wait_until_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp, \
                                             PARAMETER) {                                         \
    door_wait_all(WANTED(T, ARE_MANY, VALUES));                                                   \
  }                                                                                               \
  size_t shmem_##NAME##_wait_until_any##SUFFIX(T* ivars, size_t nelems, const int* status,        \
                                               int cmp, PARAMETER) {                              \
    return door_wait_any(WANTED(T, ARE_MANY, VALUES));                                            \
  }                                                                                               \
  size_t shmem_##NAME##_wait_until_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,         \
                                                const int* status, int cmp, PARAMETER) {          \
    return door_wait_some(WANTED(T, ARE_MANY, VALUES), indices);                                  \
  }                                                                                               \
  int shmem_##NAME##_test_all##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,        \
                                      PARAMETER) {                                                \
    return door_test_all(WANTED(T, ARE_MANY, VALUES));                                            \
  }                                                                                               \
  size_t shmem_##NAME##_test_any##SUFFIX(T* ivars, size_t nelems, const int* status, int cmp,     \
                                         PARAMETER) {                                             \
    return door_test_any(WANTED(T, ARE_MANY, VALUES));                                            \
  }                                                                                               \
  size_t shmem_##NAME##_test_some##SUFFIX(T* ivars, size_t nelems, size_t* indices,               \
                                          const int* status, int cmp, PARAMETER) {                \
    return door_test_some(WANTED(T, ARE_MANY, VALUES), indices);                                  \
  }
#define WAIT(how, NAME, T)                                                                  \
  void shmem_##NAME##_wait_until(T* ivar, int cmp, T cmp_value) {                           \
    door_wait_all((struct door_wanted){ivar, 1, NULL, cmp, &cmp_value, 0, DOOR_TYPE(T)});        \
  }                                                                                         \
  int shmem_##NAME##_test(T* ivar, int cmp, T cmp_value) {                                  \
    return door_test_all((struct door_wanted){ivar, 1, NULL, cmp, &cmp_value, 0, DOOR_TYPE(T)}); \
  }                                                                                         \
  WAITS(NAME, T, , 0, T cmp_value, &cmp_value)                                              \
  WAITS(NAME, T, _vector, 1, T* cmp_values, cmp_values)
TOWPATH_SHMEM_WAIT_TYPES(WAIT, )

/* Collectives on teams --------------------------------------------------------------------------*/

#define COLLECTIVES(PREFIX, SUFFIX, T, WIDTH)                                                      \
  int shmem_##PREFIX##broadcast##SUFFIX(shmem_team_t team, T* dest, const T* source,               \
                                        size_t nelems, int PE_root) {                              \
    return door_broadcast(team, dest, source, door_bytes(nelems, WIDTH), PE_root);                 \
  }                                                                                                \
  int shmem_##PREFIX##collect##SUFFIX(shmem_team_t team, T* dest, const T* source,                 \
                                      size_t nelems) {                                             \
    return door_collect(team, dest, source, nelems, WIDTH);                                        \
  }                                                                                                \
  int shmem_##PREFIX##fcollect##SUFFIX(shmem_team_t team, T* dest, const T* source,                \
                                       size_t nelems) {                                            \
    return door_collect(team, dest, source, nelems, WIDTH);                                        \
  }                                                                                                \
  int shmem_##PREFIX##alltoall##SUFFIX(shmem_team_t team, T* dest, const T* source,                \
                                       size_t nelems) {                                            \
    return door_alltoall(team, dest, source, door_bytes(nelems, WIDTH));                           \
  }                                                                                                \
  int shmem_##PREFIX##alltoalls##SUFFIX(shmem_team_t team, T* dest, const T* source,               \
                                        ptrdiff_t dst, ptrdiff_t sst, size_t nelems) {             \
    return door_alltoalls(team, dest, source, (struct door_strides){dst, sst, WIDTH}, nelems);     \
  }
#define COLLECTIVE(how, NAME, T) COLLECTIVES(NAME##_, , T, sizeof(T))
TOWPATH_SHMEM_RMA_TYPES(COLLECTIVE, )
COLLECTIVES(, mem, void, 1)

#define REDUCE(OP, KIND, NAME, T)                                                                  \
  int shmem_##NAME##_##OP##_reduce(shmem_team_t team, T* dest, const T* source, size_t nreduce) {  \
    return door_reduce(team, dest, source, (struct door_reduction){KIND, DOOR_TYPE(T), nreduce});       \
  }
#define AND_REDUCE(how, NAME, T) REDUCE(and, door_bits_and, NAME, T)
#define OR_REDUCE(how, NAME, T) REDUCE(or, door_bits_or, NAME, T)
#define XOR_REDUCE(how, NAME, T) REDUCE(xor, door_bits_xor, NAME, T)
#define REDUCE_BY_NAME(OP, NAME, T) REDUCE(OP, door_##OP, NAME, T)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(AND_REDUCE, )
TOWPATH_SHMEM_BITS_REDUCE_TYPES(OR_REDUCE, )
TOWPATH_SHMEM_BITS_REDUCE_TYPES(XOR_REDUCE, )
TOWPATH_SHMEM_RMA_TYPES(REDUCE_BY_NAME, max)
TOWPATH_SHMEM_RMA_TYPES(REDUCE_BY_NAME, min)
TOWPATH_SHMEM_SUM_TYPES(REDUCE_BY_NAME, sum)
TOWPATH_SHMEM_SUM_TYPES(REDUCE_BY_NAME, prod)

#define SCANS(how, NAME, T)                                                                        \
  int shmem_##NAME##_sum_inscan(shmem_team_t team, T* dest, const T* source, size_t nelems) {      \
    return door_scan(team, dest, source,                                                           \
                     (struct door_reduction){door_sum, DOOR_TYPE(T), nelems}, 1);                  \
  }                                                                                                \
  int shmem_##NAME##_sum_exscan(shmem_team_t team, T* dest, const T* source, size_t nelems) {      \
    return door_scan(team, dest, source,                                                           \
                     (struct door_reduction){door_sum, DOOR_TYPE(T), nelems}, 0);                  \
  }
TOWPATH_SHMEM_SUM_TYPES(SCANS, )
