/* NVSHMEM's host functions, in words of OpenSHMEM's and of those below both.
 *
 * Collective calls are made one after the other, whatever thread makes them: programs that NVSHMEM
 * serialises need not do it again. */
#include "nvshmem_host.h"

#include <pthread.h>
#include <string.h>

#include "door.h"

#define UNPACK(...) __VA_ARGS__
/* A function, and the same with a stream: it has done it when it returns. */
#define BOTH(RESULT, NAME, PARAMETERS, BODY)                                                 \
  RESULT nvshmem_##NAME PARAMETERS BODY                                                      \
  RESULT nvshmemx_##NAME##_on_stream(UNPACK PARAMETERS, nvshmem_stream_t stream) {           \
    (void)stream;                                                                            \
    BODY                                                                                     \
  }

static pthread_mutex_t collectives = PTHREAD_MUTEX_INITIALIZER;

/* Of the call that made it, until that returns. */
static int take_turn(void) { return pthread_mutex_lock(&collectives); }
static void end_turn(int* turn) {
  if (*turn == 0) pthread_mutex_unlock(&collectives);
}
#define ONE_AT_A_TIME \
  int turn __attribute__((cleanup(end_turn))) = take_turn(); \
  (void)turn

/* NVSHMEM's handles are numbers, with NODE besides; those of shmem.h are the number and 1. */
static shmem_team_t team_of(nvshmem_team_t team) {
  if (team == NVSHMEMX_TEAM_NODE) return SHMEM_TEAM_SHARED;
  return team < 0 ? SHMEM_TEAM_INVALID : (shmem_team_t)((intptr_t)team + 1);
}
static nvshmem_team_t number_of(shmem_team_t team) { return (nvshmem_team_t)((intptr_t)team - 1); }

int nvshmem_my_pe(void) { return shmem_my_pe(); }
int nvshmem_n_pes(void) { return shmem_n_pes(); }

void* nvshmem_malloc(size_t size) {
  ONE_AT_A_TIME;
  return shmem_malloc(size);
}
void* nvshmem_calloc(size_t count, size_t size) {
  ONE_AT_A_TIME;
  return shmem_calloc(count, size);
}
void* nvshmem_align(size_t alignment, size_t size) {
  ONE_AT_A_TIME;
  return shmem_align(alignment, size);
}
void nvshmem_free(void* ptr) {
  ONE_AT_A_TIME;
  shmem_free(ptr);
}
void* nvshmem_ptr(const void* dest, int pe) { return shmem_ptr(dest, pe); }
int nvshmemx_buffer_register(void* addr, size_t length) {
  (void)addr, (void)length;
  return 0;
}
int nvshmemx_buffer_unregister(void* addr) {
  (void)addr;
  return 0;
}
void nvshmemx_buffer_unregister_all(void) {}

int nvshmem_team_my_pe(nvshmem_team_t team) { return shmem_team_my_pe(team_of(team)); }
int nvshmem_team_n_pes(nvshmem_team_t team) { return shmem_team_n_pes(team_of(team)); }
int nvshmem_team_translate_pe(nvshmem_team_t team, int pe, nvshmem_team_t other) {
  return shmem_team_translate_pe(team_of(team), pe, team_of(other));
}
static shmem_team_config_t config_of(const nvshmem_team_config_t* config) {
  return (shmem_team_config_t){config != NULL ? config->num_contexts : 0};
}
void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config) {
  shmem_team_config_t reported = {0};
  (void)shmem_team_get_config(team_of(team), SHMEM_TEAM_NUM_CONTEXTS, &reported);
  config->num_contexts = reported.num_contexts;
}
int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                               const nvshmem_team_config_t* config, long config_mask,
                               nvshmem_team_t* new_team) {
  ONE_AT_A_TIME;
  const shmem_team_config_t wanted = config_of(config);
  shmem_team_t made = SHMEM_TEAM_INVALID;
  const int status = shmem_team_split_strided(team_of(parent), start, stride, size, &wanted,
                                              config_mask, &made);
  *new_team = number_of(made);
  return status;
}
int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange,
                          const nvshmem_team_config_t* xaxis_config, long xaxis_mask,
                          nvshmem_team_t* xaxis_team, const nvshmem_team_config_t* yaxis_config,
                          long yaxis_mask, nvshmem_team_t* yaxis_team) {
  ONE_AT_A_TIME;
  const shmem_team_config_t x = config_of(xaxis_config), y = config_of(yaxis_config);
  shmem_team_t row = SHMEM_TEAM_INVALID, column = SHMEM_TEAM_INVALID;
  const int status = shmem_team_split_2d(team_of(parent), xrange, &x, xaxis_mask, &row, &y,
                                         yaxis_mask, &column);
  *xaxis_team = number_of(row);
  *yaxis_team = number_of(column);
  return status;
}
void nvshmem_team_destroy(nvshmem_team_t team) {
  ONE_AT_A_TIME;
  if (shmem_team_n_pes(team_of(team)) >= 0) shmem_team_destroy(team_of(team));
}

void nvshmem_quiet(void) { shmem_quiet(); }
void nvshmem_fence(void) { shmem_fence(); }
void nvshmemx_quiet_on_stream(nvshmem_stream_t stream) {
  (void)stream;
  shmem_quiet();
}
uint64_t nvshmem_signal_fetch(const uint64_t* sig_addr) { return shmem_signal_fetch(sig_addr); }
void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {
  door_put_signal(SHMEM_CTX_DEFAULT, NULL, NULL, 0, (struct door_signal){sig_addr, signal, sig_op},
                  pe);
}
void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                  nvshmem_stream_t stream) {
  (void)stream;
  nvshmemx_signal_op(sig_addr, signal, sig_op, pe);
}
void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t cmp_value,
                                          nvshmem_stream_t stream) {
  (void)stream;
  (void)shmem_signal_wait_until(sig_addr, cmp, cmp_value);
}

void nvshmem_barrier_all(void) {
  ONE_AT_A_TIME;
  shmem_barrier_all();
}
void nvshmem_sync_all(void) {
  ONE_AT_A_TIME;
  shmem_sync_all();
}
void nvshmemx_barrier_all_on_stream(nvshmem_stream_t stream) {
  (void)stream;
  nvshmem_barrier_all();
}
void nvshmemx_sync_all_on_stream(nvshmem_stream_t stream) {
  (void)stream;
  nvshmem_sync_all();
}
BOTH(int, barrier, (nvshmem_team_t team), {
  ONE_AT_A_TIME;
  return door_barrier(team_of(team));
})
BOTH(int, team_sync, (nvshmem_team_t team), {
  ONE_AT_A_TIME;
  return shmem_team_sync(team_of(team));
})

/* Puts and gets ---------------------------------------------------------------------------------*/

#define PUT_SIGNAL(NAME, T, WIDTH)                                                            \
  void nvshmemx_##NAME##_on_stream(T* dest, const T* source, size_t nelems,                   \
                                   uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,   \
                                   nvshmem_stream_t stream) {                                 \
    (void)stream;                                                                             \
    door_put_signal(SHMEM_CTX_DEFAULT, dest, source, door_bytes(nelems, WIDTH),               \
                    (struct door_signal){sig_addr, signal, sig_op}, pe);                      \
  }
#define RMA(PUT, GET, T, WIDTH)                                                        \
  BOTH(void, PUT, (T* dest, const T* source, size_t nelems, int pe),                   \
       { door_put(SHMEM_CTX_DEFAULT, dest, source, door_bytes(nelems, WIDTH), pe); })  \
  BOTH(void, GET, (T* dest, const T* source, size_t nelems, int pe),                   \
       { door_get(SHMEM_CTX_DEFAULT, dest, source, door_bytes(nelems, WIDTH), pe); })  \
  BOTH(void, PUT##_nbi, (T* dest, const T* source, size_t nelems, int pe),             \
       { door_put(SHMEM_CTX_DEFAULT, dest, source, door_bytes(nelems, WIDTH), pe); })  \
  BOTH(void, GET##_nbi, (T* dest, const T* source, size_t nelems, int pe),             \
       { door_get(SHMEM_CTX_DEFAULT, dest, source, door_bytes(nelems, WIDTH), pe); })  \
  PUT_SIGNAL(PUT##_signal, T, WIDTH)                                                   \
  PUT_SIGNAL(PUT##_signal_nbi, T, WIDTH)
#define STRIDES(WIDTH) (struct door_strides){dst, sst, WIDTH}
#define STRIDED(PUT, GET, T, WIDTH)                                                                \
  BOTH(void, PUT, (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
       { door_iput(SHMEM_CTX_DEFAULT, dest, source, STRIDES(WIDTH), nelems, pe); })                \
  BOTH(void, GET, (T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe), \
       { door_iget(SHMEM_CTX_DEFAULT, dest, source, STRIDES(WIDTH), nelems, pe); })
#define TYPED(how, NAME, T)                                                  \
  BOTH(void, NAME##_p, (T* dest, T value, int pe),                           \
       { door_put(SHMEM_CTX_DEFAULT, dest, &value, sizeof value, pe); })     \
  BOTH(T, NAME##_g, (const T* source, int pe), {                             \
    T value;                                                                 \
    door_get(SHMEM_CTX_DEFAULT, &value, source, sizeof value, pe);           \
    return value;                                                            \
  })                                                                         \
  RMA(NAME##_put, NAME##_get, T, sizeof(T))                                  \
  STRIDED(NAME##_iput, NAME##_iget, T, sizeof(T))
#define SIZED(how, BITS, BYTES)           \
  RMA(put##BITS, get##BITS, void, BYTES)  \
  STRIDED(iput##BITS, iget##BITS, void, BYTES)
TOWPATH_NVSHMEM_TYPES(TYPED, )
TOWPATH_SHMEM_SIZES(SIZED, )
RMA(putmem, getmem, void, 1)

/* Collectives -----------------------------------------------------------------------------------*/

#define MOVES(PREFIX, SUFFIX, T, WIDTH)                                                           \
  BOTH(int, PREFIX##broadcast##SUFFIX,                                                            \
       (nvshmem_team_t team, T* dest, const T* source, size_t nelems, int PE_root), {             \
         ONE_AT_A_TIME;                                                                           \
         return door_broadcast(team_of(team), dest, source, door_bytes(nelems, WIDTH), PE_root);  \
       })                                                                                         \
  BOTH(int, PREFIX##fcollect##SUFFIX,                                                             \
       (nvshmem_team_t team, T* dest, const T* source, size_t nelems), {                          \
         ONE_AT_A_TIME;                                                                           \
         return door_collect(team_of(team), dest, source, nelems, WIDTH);                         \
       })                                                                                         \
  BOTH(int, PREFIX##alltoall##SUFFIX,                                                             \
       (nvshmem_team_t team, T* dest, const T* source, size_t nelems), {                          \
         ONE_AT_A_TIME;                                                                           \
         return door_alltoall(team_of(team), dest, source, door_bytes(nelems, WIDTH));            \
       })
#define MOVE(how, NAME, T) MOVES(NAME##_, , T, sizeof(T))
TOWPATH_NVSHMEM_TYPES(MOVE, )
MOVES(, mem, void, 1)

#define REDUCES(OP, NAME, T, KIND, TYPE)                                           \
  BOTH(int, NAME##_##OP##_reduce,                                                  \
       (nvshmem_team_t team, T* dest, const T* source, size_t nreduce), {          \
         ONE_AT_A_TIME;                                                            \
         return door_reduce(team_of(team), dest, source,                           \
                            (struct door_reduction){KIND, TYPE, nreduce});         \
       })                                                                          \
  BOTH(int, NAME##_##OP##_reducescatter,                                           \
       (nvshmem_team_t team, T* dest, const T* source, size_t nreduce), {          \
         ONE_AT_A_TIME;                                                            \
         return door_reduce_scatter(team_of(team), dest, source,                   \
                                    (struct door_reduction){KIND, TYPE, nreduce}); \
       })
#define BITS(OP, NAME, T) REDUCES(OP, NAME, T, door_bits_##OP, DOOR_TYPE(T))
TOWPATH_SHMEM_BITS_REDUCE_TYPES(BITS, and)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(BITS, or)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(BITS, xor)
#define NUMBERS(OP, NAME, T) REDUCES(OP, NAME, T, door_##OP, DOOR_TYPE(T))
#define SHORTS(OP, NAME, T) REDUCES(OP, NAME, T, door_##OP, door_##NAME)
TOWPATH_NVSHMEM_SUM_TYPES(NUMBERS, max)
TOWPATH_NVSHMEM_SUM_TYPES(NUMBERS, min)
TOWPATH_NVSHMEM_SUM_TYPES(NUMBERS, sum)
TOWPATH_NVSHMEM_SUM_TYPES(NUMBERS, prod)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORTS, max)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORTS, min)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORTS, sum)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORTS, prod)

/* Atomic operations and waits -------------------------------------------------------------------*/

#define AMO(how, NAME, T)                                      \
  T nvshmem_##NAME##_atomic_fetch(const T* source, int pe) {   \
    return shmem_##NAME##_atomic_fetch(source, pe);            \
  }                                                            \
  void nvshmem_##NAME##_atomic_set(T* dest, T value, int pe) { \
    shmem_##NAME##_atomic_set(dest, value, pe);                \
  }                                                            \
  T nvshmem_##NAME##_atomic_swap(T* dest, T value, int pe) {   \
    return shmem_##NAME##_atomic_swap(dest, value, pe);        \
  }
TOWPATH_SHMEM_EXTENDED_AMO_TYPES(AMO, )
#define WORD_AMO(how, NAME, T)                                                               \
  T nvshmem_##NAME##_atomic_compare_swap(T* dest, T cond, T value, int pe) {                 \
    return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                        \
  }                                                                                          \
  void nvshmem_##NAME##_atomic_inc(T* dest, int pe) { shmem_##NAME##_atomic_inc(dest, pe); } \
  void nvshmem_##NAME##_atomic_add(T* dest, T value, int pe) {                               \
    shmem_##NAME##_atomic_add(dest, value, pe);                                              \
  }                                                                                          \
  T nvshmem_##NAME##_atomic_fetch_inc(T* dest, int pe) {                                     \
    return shmem_##NAME##_atomic_fetch_inc(dest, pe);                                        \
  }                                                                                          \
  T nvshmem_##NAME##_atomic_fetch_add(T* dest, T value, int pe) {                            \
    return shmem_##NAME##_atomic_fetch_add(dest, value, pe);                                 \
  }
TOWPATH_SHMEM_AMO_TYPES(WORD_AMO, )
#define BITS_AMO(OP, NAME, T)                                      \
  void nvshmem_##NAME##_atomic_##OP(T* dest, T value, int pe) {    \
    shmem_##NAME##_atomic_##OP(dest, value, pe);                   \
  }                                                                \
  T nvshmem_##NAME##_atomic_fetch_##OP(T* dest, T value, int pe) { \
    return shmem_##NAME##_atomic_fetch_##OP(dest, value, pe);      \
  }
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, and)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, or)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO, xor)

/* Sums of floating-point numbers: computed here, exchanged for what was there. A half is exchanged
 * with its neighbour in the word of both. */
#define FLOAT_ADD(NAME, T, WORD, SHIFT, SUM)                           \
  T nvshmemx_##NAME##_atomic_fetch_add(T* dest, T value, int pe) {     \
    const unsigned shift = (SHIFT);                                    \
    void* word = (char*)dest - shift / 8;                              \
    struct door_atomic swap = {door_load, sizeof(WORD), 0, 0};         \
    WORD found = (WORD)door_change(SHMEM_CTX_DEFAULT, word, swap, pe); \
    T old, sum;                                                        \
    swap.op = door_compare_swap;                                       \
    do {                                                               \
      WORD wanted = found;                                             \
      swap.cond = found;                                               \
      memcpy(&old, (char*)&found + shift / 8, sizeof old);             \
      sum = SUM(old, value);                                           \
      memcpy((char*)&wanted + shift / 8, &sum, sizeof sum);            \
      swap.value = wanted;                                             \
      found = (WORD)door_change(SHMEM_CTX_DEFAULT, word, swap, pe);    \
    } while (found != (WORD)swap.cond);                                \
    return old;                                                        \
  }                                                                    \
  void nvshmemx_##NAME##_atomic_add(T* dest, T value, int pe) {        \
    (void)nvshmemx_##NAME##_atomic_fetch_add(dest, value, pe);         \
  }
#define PLUS(a, b) ((a) + (b))
FLOAT_ADD(float, float, uint32_t, 0, PLUS)
FLOAT_ADD(double, double, uint64_t, 0, PLUS)
FLOAT_ADD(half, uint16_t, uint32_t, ((uintptr_t)dest & 2) * 8, door_half_sum)

#define WAITS(how, NAME, T)                                                                        \
  void nvshmemx_##NAME##_wait_until_on_stream(T* ivar, int cmp, T cmp_value,                       \
                                              nvshmem_stream_t stream) {                           \
    (void)stream;                                                                                  \
    shmem_##NAME##_wait_until(ivar, cmp, cmp_value);                                               \
  }                                                                                                \
  void nvshmemx_##NAME##_wait_until_all_on_stream(T* ivars, size_t nelems, const int* status,      \
                                                  int cmp, T cmp_value, nvshmem_stream_t stream) { \
    (void)stream;                                                                                  \
    shmem_##NAME##_wait_until_all(ivars, nelems, status, cmp, cmp_value);                          \
  }                                                                                                \
  void nvshmemx_##NAME##_wait_until_all_vector_on_stream(T* ivars, size_t nelems,                  \
                                                         const int* status, int cmp,               \
                                                         T* cmp_values, nvshmem_stream_t stream) { \
    (void)stream;                                                                                  \
    shmem_##NAME##_wait_until_all_vector(ivars, nelems, status, cmp, cmp_values);                  \
  }
TOWPATH_SHMEM_WAIT_TYPES(WAITS, )

/* What puts read is free again when they return. */
void nvshmemx_flush(void) {}
void nvshmemx_flush_on_stream(nvshmem_stream_t stream) { (void)stream; }
void nvshmemx_signal_counted_reset(uint64_t* sig_addr) {
  nvshmemx_signal_op(sig_addr, 0, SHMEM_SIGNAL_SET, shmem_my_pe());
}
