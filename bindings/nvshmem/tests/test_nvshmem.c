/* Opens libnvshmem_host.so.3 as loaders do, and calls every function of it by name.
 *
 *   nvshmem_test LIBRARY           on every PE of a job
 *   nvshmem_test LIBRARY names     prints the names that it calls
 *   nvshmem_test LIBRARY alone     what several users of one process do: no launcher
 *   nvshmem_test LIBRARY id        two processes that find each other by an identifier
 *   nvshmem_test LIBRARY id RANK PIPE   one of them, on whatever host: PE 0 writes it, PE 1 reads it
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bindings/testing/check.h"
#include "nvshmem_host.h"

static void* library;
static bool prints_names;
int failed_checks = 0;

static void* look(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s is not there\n", name);
    exit(1);
  }
  if (prints_names) puts(name);
  return found;
}
/* A function of the library, typed as the header has it. */
#define F(NAME) ((__typeof__(&NAME))look(#NAME))
/* The same, and the one with a stream, called alike. */
#define X(NAME) ((__typeof__(&nvshmemx_##NAME##_on_stream))look("nvshmemx_" #NAME "_on_stream"))

enum { kCount = 8 };
static int me, pes, next_pe;
static char* heap; /* for one case at a time */

static void meet(void) { F(nvshmem_barrier_all)(); }

#define RMA_TEST(PUT, GET, T, WIDTH)                                                \
  do {                                                                              \
    uint64_t* flag = (uint64_t*)heap;                                               \
    T* box = (T*)(heap + 64);                                                       \
    T* mine = (T*)(heap + 64 + 6 * (WIDTH));                                        \
    char local[4 * (WIDTH)], theirs[4 * (WIDTH)];                                   \
    memset(mine, 'a' + me, WIDTH);                                                  \
    memset(theirs, 'a' + next_pe, sizeof theirs);                                   \
    memset(local, 0, sizeof local);                                                 \
    memset(box, 0, 6 * (WIDTH)); /* of what a case of another type left */          \
    *flag = 0;                                                                      \
    meet();                                                                         \
    F(nvshmem_##PUT)(box, mine, 1, next_pe);                                        \
    F(nvshmem_##PUT##_nbi)((T*)((char*)box + (WIDTH)), mine, 1, next_pe);           \
    X(PUT)((T*)((char*)box + 2 * (WIDTH)), mine, 1, next_pe, NULL);                 \
    X(PUT##_nbi)((T*)((char*)box + 3 * (WIDTH)), mine, 1, next_pe, NULL);           \
    X(PUT##_signal)((T*)((char*)box + 4 * (WIDTH)), mine, 1, flag, 1, 10, next_pe, NULL);     \
    X(PUT##_signal_nbi)((T*)((char*)box + 5 * (WIDTH)), mine, 1, flag, 1, 10, next_pe, NULL); \
    meet();                                                                         \
    CHECK(*flag == 2);                                                              \
    for (size_t i = 0; i < 6 * (WIDTH); ++i)                                        \
      CHECK(((char*)box)[i] == 'a' + (me + pes - 1) % pes);                         \
    F(nvshmem_##GET)((T*)local, mine, 1, next_pe);                                  \
    F(nvshmem_##GET##_nbi)((T*)(local + (WIDTH)), mine, 1, next_pe);                \
    X(GET)((T*)(local + 2 * (WIDTH)), mine, 1, next_pe, NULL);                      \
    X(GET##_nbi)((T*)(local + 3 * (WIDTH)), mine, 1, next_pe, NULL);                \
    CHECK(memcmp(local, theirs, sizeof local) == 0);                                \
    meet();                                                                         \
  } while (0)

/* Two elements, each second one, by way of `box` and back. */
#define STRIDED_TEST(PUT, GET, T, WIDTH)                                            \
  do {                                                                              \
    char* box = heap + 1024;                                                        \
    char mine[2 * (WIDTH)], back[2 * (WIDTH)];                                      \
    for (size_t i = 0; i < sizeof mine; ++i) mine[i] = (char)(i + 1);               \
    memset(box, 0, 4 * (WIDTH));                                                    \
    F(nvshmem_##PUT)((T*)box, (const T*)mine, 2, 1, 2, me);                         \
    CHECK(memcmp(box, mine, WIDTH) == 0);                                           \
    CHECK(memcmp(box + 2 * (WIDTH), mine + (WIDTH), WIDTH) == 0);                   \
    memset(back, 0, sizeof back);                                                   \
    F(nvshmem_##GET)((T*)back, (const T*)box, 1, 2, 2, me);                         \
    CHECK(memcmp(mine, back, sizeof mine) == 0);                                    \
    memset(box, 0, 4 * (WIDTH));                                                    \
    X(PUT)((T*)box, (const T*)mine, 2, 1, 2, me, NULL);                             \
    CHECK(memcmp(box + 2 * (WIDTH), mine + (WIDTH), WIDTH) == 0);                   \
    memset(back, 0, sizeof back);                                                   \
    X(GET)((T*)back, (const T*)box, 1, 2, 2, me, NULL);                             \
    CHECK(memcmp(mine, back, sizeof mine) == 0);                                    \
  } while (0)

#define TYPED_TEST(how, NAME, T)                                                    \
  static void typed_##NAME(void) {                                                  \
    T* pair = (T*)heap;                                                             \
    meet();                                                                         \
    F(nvshmem_##NAME##_p)(pair, (T)(me + 1), next_pe);                               \
    X(NAME##_p)(pair + 1, (T)(me + 2), next_pe, NULL);                               \
    meet();                                                                         \
    CHECK(pair[0] == (T)((me + pes - 1) % pes + 1));                                 \
    CHECK(F(nvshmem_##NAME##_g)(pair, next_pe) == (T)(me + 1));                      \
    CHECK(X(NAME##_g)(pair + 1, next_pe, NULL) == (T)(me + 2));                      \
    meet();                                                                         \
    RMA_TEST(NAME##_put, NAME##_get, T, sizeof(T));                                 \
    STRIDED_TEST(NAME##_iput, NAME##_iget, T, sizeof(T));                           \
  }
TOWPATH_NVSHMEM_TYPES(TYPED_TEST, )

#define SIZED_TEST(how, BITS, BYTES)                   \
  static void sized_##BITS(void) {                     \
    RMA_TEST(put##BITS, get##BITS, void, BYTES);       \
    STRIDED_TEST(iput##BITS, iget##BITS, void, BYTES); \
  }
TOWPATH_SHMEM_SIZES(SIZED_TEST, )

#define MOVES_TEST(PREFIX, SUFFIX, T, WIDTH)                                                    \
  do {                                                                                          \
    char* from = heap;                                                                          \
    char* to = heap + 1024; /* a part for each call: nothing there from one before */           \
    const size_t part = (size_t)pes * (WIDTH);                                                  \
    for (int pe = 0; pe < pes; ++pe)                                                            \
      memset(from + (size_t)pe * (WIDTH), 'a' + 5 * me + pe, WIDTH);                            \
    memset(to, 0, 6 * part);                                                                    \
    meet();                                                                                     \
    CHECK(F(nvshmem_##PREFIX##broadcast##SUFFIX)(0, (T*)to, (T*)from, 1, pes - 1) == 0);        \
    CHECK(to[0] == 'a' + 5 * (pes - 1));                                                        \
    to += part;                                                                                 \
    CHECK(X(PREFIX##broadcast##SUFFIX)(0, (T*)to, (T*)from, 1, 0, NULL) == 0 && to[0] == 'a');  \
    to += part;                                                                                 \
    CHECK(F(nvshmem_##PREFIX##fcollect##SUFFIX)(0, (T*)to, (T*)from, 1) == 0);                  \
    for (int pe = 0; pe < pes; ++pe) CHECK(to[(size_t)pe * (WIDTH)] == 'a' + 5 * pe);           \
    to += part;                                                                                 \
    CHECK(X(PREFIX##fcollect##SUFFIX)(0, (T*)to, (T*)from, 1, NULL) == 0);                      \
    for (int pe = 0; pe < pes; ++pe) CHECK(to[(size_t)pe * (WIDTH)] == 'a' + 5 * pe);           \
    to += part;                                                                                 \
    CHECK(F(nvshmem_##PREFIX##alltoall##SUFFIX)(0, (T*)to, (T*)from, 1) == 0);                  \
    for (int pe = 0; pe < pes; ++pe) CHECK(to[(size_t)pe * (WIDTH)] == 'a' + 5 * pe + me);      \
    to += part;                                                                                 \
    CHECK(X(PREFIX##alltoall##SUFFIX)(0, (T*)to, (T*)from, 1, NULL) == 0);                      \
    for (int pe = 0; pe < pes; ++pe) CHECK(to[(size_t)pe * (WIDTH)] == 'a' + 5 * pe + me);      \
    meet();                                                                                     \
  } while (0)
#define MOVE_TEST(how, NAME, T) \
  static void moves_##NAME(void) { MOVES_TEST(NAME##_, , T, sizeof(T)); }
TOWPATH_NVSHMEM_TYPES(MOVE_TEST, )

/* Of PE's number and 1, in the library's two forms. */
#define REDUCE_TEST(OP, NAME, T)                                                          \
  static void OP##_##NAME(void) {                                                         \
    T *from = (T*)heap, *to = (T*)(heap + 64);                                            \
    *from = (T)(me + 1);                                                                  \
    int wanted = 1;                                                                       \
    for (int pe = 1; pe < pes; ++pe) wanted = OP##_OF(wanted, pe + 1);                    \
    CHECK(F(nvshmem_##NAME##_##OP##_reduce)(0, to, from, 1) == 0 && *to == (T)wanted);    \
    CHECK(X(NAME##_##OP##_reduce)(0, to + 1, from, 1, NULL) == 0 && to[1] == (T)wanted);  \
    meet();                                                                               \
    T* scattered = (T*)(heap + 1024);                                                     \
    for (int pe = 0; pe < pes; ++pe) from[pe] = (T)(me + 1 + pe);                         \
    for (int pe = 1, of = wanted = me + 1; pe < pes; ++pe) wanted = of = OP##_OF(of, pe + me + 1); \
    CHECK(F(nvshmem_##NAME##_##OP##_reducescatter)(0, scattered, from, 1) == 0);          \
    CHECK(X(NAME##_##OP##_reducescatter)(0, from, from, 1, NULL) == 0);                   \
    CHECK(*scattered == (T)wanted && *from == (T)wanted);                                 \
    meet();                                                                               \
  }
#define and_OF(a, b) ((a) & (b))
#define or_OF(a, b) ((a) | (b))
#define xor_OF(a, b) ((a) ^ (b))
#define max_OF(a, b) ((a) > (b) ? (a) : (b))
#define min_OF(a, b) ((a) < (b) ? (a) : (b))
#define sum_OF(a, b) ((a) + (b))
#define prod_OF(a, b) ((a) * (b))
TOWPATH_SHMEM_BITS_REDUCE_TYPES(REDUCE_TEST, and)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(REDUCE_TEST, or)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(REDUCE_TEST, xor)
TOWPATH_NVSHMEM_SUM_TYPES(REDUCE_TEST, max)
TOWPATH_NVSHMEM_SUM_TYPES(REDUCE_TEST, min)
TOWPATH_NVSHMEM_SUM_TYPES(REDUCE_TEST, sum)
TOWPATH_NVSHMEM_SUM_TYPES(REDUCE_TEST, prod)

/* 1.5. */
enum { kHalf = 0x3e00 };
static uint16_t half_of(int value) { /* of small integers */
  int exponent = 15, digits = value * 1024;
  for (; digits >= 2048; digits /= 2) ++exponent;
  return (uint16_t)(exponent << 10 | (digits & 1023));
}
static uint16_t bfloat16_of(int value) {
  const float all = (float)value;
  uint32_t bits;
  memcpy(&bits, &all, sizeof bits);
  return (uint16_t)(bits >> 16);
}
#define SHORT_REDUCE_TEST(OP, NAME, T)                                                    \
  static void OP##_##NAME(void) {                                                         \
    T *from = (T*)heap, *to = (T*)(heap + 1024);                                          \
    int wanted = 1, scattered = me + 1;                                                   \
    for (int pe = 1; pe < pes; ++pe) wanted = OP##_OF(wanted, pe + 1);                    \
    for (int pe = 1; pe < pes; ++pe) scattered = OP##_OF(scattered, me + 1);              \
    for (int pe = 0; pe < 8; ++pe) from[pe] = NAME##_of(me + 1);                          \
    CHECK(F(nvshmem_##NAME##_##OP##_reduce)(0, to, from, 8) == 0);                        \
    CHECK(X(NAME##_##OP##_reduce)(0, to + 8, from, 1, NULL) == 0);                        \
    CHECK(to[0] == NAME##_of(wanted) && to[7] == to[0] && to[8] == to[0]);                \
    for (int pe = 0; pe < pes; ++pe) from[pe] = NAME##_of(pe + 1);                        \
    CHECK(F(nvshmem_##NAME##_##OP##_reducescatter)(0, to, from, 1) == 0);                 \
    CHECK(X(NAME##_##OP##_reducescatter)(0, to + 1, from, 1, NULL) == 0);                 \
    CHECK(to[0] == NAME##_of(scattered) && to[1] == to[0]);                               \
    meet();                                                                               \
  }
TOWPATH_NVSHMEM_SHORT_TYPES(SHORT_REDUCE_TEST, max)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORT_REDUCE_TEST, min)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORT_REDUCE_TEST, sum)
TOWPATH_NVSHMEM_SHORT_TYPES(SHORT_REDUCE_TEST, prod)

/* All PEs change a word of PE 0. */
#define WORD_AMO_TEST(how, NAME, T)                                                       \
  static void amo_##NAME(void) {                                                          \
    T* word = (T*)heap;                                                                   \
    memset(heap, 0, 64);                                                                  \
    meet();                                                                               \
    F(nvshmem_##NAME##_atomic_inc)(word, 0);                                              \
    F(nvshmem_##NAME##_atomic_add)(word, 2, 0);                                           \
    (void)F(nvshmem_##NAME##_atomic_fetch_inc)(word, 0);                                  \
    (void)F(nvshmem_##NAME##_atomic_fetch_add)(word, 3, 0);                               \
    meet();                                                                               \
    CHECK(F(nvshmem_##NAME##_atomic_fetch)(word, 0) == (T)(7 * pes));                     \
    F(nvshmem_##NAME##_atomic_set)(word + 1, 5, me);                                      \
    CHECK(F(nvshmem_##NAME##_atomic_compare_swap)(word + 1, 5, 6, me) == 5);              \
    CHECK(F(nvshmem_##NAME##_atomic_swap)(word + 1, 7, me) == 6 && word[1] == 7);         \
    if (me == 0) word[2] = word[3] = 1;                                                   \
    X(NAME##_wait_until)(word + 1, 0, 7, NULL);                                           \
    word[2] = 7;                                                                          \
    X(NAME##_wait_until_all)(word + 1, 2, NULL, 0, 7, NULL);                              \
    T wanted[2] = {7, 7};                                                                 \
    X(NAME##_wait_until_all_vector)(word + 1, 2, NULL, 0, wanted, NULL);                  \
    meet();                                                                               \
  }
TOWPATH_SHMEM_AMO_TYPES(WORD_AMO_TEST, )
#define BITS_AMO_TEST(OP, NAME, T)                                                        \
  static void amo_##OP##_##NAME(void) {                                                   \
    T* word = (T*)heap;                                                                   \
    word[0] = word[1] = 12;                                                               \
    F(nvshmem_##NAME##_atomic_##OP)(word, 10, me);                                        \
    CHECK(F(nvshmem_##NAME##_atomic_fetch_##OP)(word + 1, 10, me) == 12);                 \
    CHECK(word[0] == OP##_OF(12, 10) && word[1] == word[0]);                              \
  }
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO_TEST, and)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO_TEST, or)
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_AMO_TEST, xor)
#define REAL_AMO_TEST(how, NAME, T)                                                       \
  static void amo_##NAME(void) {                                                          \
    T* number = (T*)heap;                                                                 \
    memset(heap, 0, 64);                                                                  \
    meet();                                                                               \
    F(nvshmemx_##NAME##_atomic_add)(number, (T)0.5, 0);                                   \
    (void)F(nvshmemx_##NAME##_atomic_fetch_add)(number, (T)1.5, 0);                       \
    meet();                                                                               \
    CHECK(F(nvshmem_##NAME##_atomic_fetch)(number, 0) == (T)(2 * pes));                   \
    F(nvshmem_##NAME##_atomic_set)(number + 1, (T)5, me);                                 \
    CHECK(F(nvshmem_##NAME##_atomic_swap)(number + 1, (T)6, me) == (T)5);                 \
    meet();                                                                               \
  }
TOWPATH_SHMEM_ATOMIC_REAL_TYPES(REAL_AMO_TEST, )
#define SHORT_WAIT_TEST(NAME, T)                                                          \
  do {                                                                                    \
    T* words = (T*)heap;                                                                  \
    T wanted[2] = {7, 8};                                                                 \
    memcpy(words, wanted, sizeof wanted);                                                 \
    X(NAME##_wait_until)(words, 0, 7, NULL);                                              \
    X(NAME##_wait_until_all)(words, 2, NULL, 2, 6, NULL);                                 \
    X(NAME##_wait_until_all_vector)(words, 2, NULL, 0, wanted, NULL);                     \
  } while (0)

/* Two halves in one word, each added to by all. */
static void halves(void) {
  uint16_t* pair = (uint16_t*)heap;
  memset(heap, 0, 64);
  meet();
  F(nvshmemx_half_atomic_add)(pair, kHalf, 0);
  (void)F(nvshmemx_half_atomic_fetch_add)(pair + 1, kHalf, 0);
  (void)F(nvshmemx_half_atomic_fetch_add)(pair + 1, kHalf, 0);
  meet();
  if (me == 0) CHECK(pair[1] == half_of(3 * pes));
  if (me == 0) CHECK(pair[0] == half_of(3 * pes) - 1024); /* half as much */
  meet();
  /* Rounding: the largest and 16 are infinite, 2048 and 1 are 2048, the two smallest are twice one. */
  const uint16_t cases[][3] = {{0x7bff, 0x4c00, 0x7c00}, {0x7bff, 0x4bff, 0x7bff},
                               {0x6800, 0x3c00, 0x6800}, {0x6801, 0x3c00, 0x6802},
                               {1, 1, 2},                {0x3ff, 1, 0x400},
                               {0x8001, 1, 0},           {0x7c00, 0xfc00, 0x7e00}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    pair[2] = cases[i][0];
    F(nvshmemx_half_atomic_add)(pair + 2, cases[i][1], me);
    if (i != 7) CHECK(pair[2] == cases[i][2]);
    if (i == 7) CHECK((pair[2] & 0x7fff) == cases[i][2]);
  }
  meet();
}

static void without_a_gpu(void) {
  uint64_t handle = 0;
  int active = -1, grid = 0, *queues = NULL;
  const nvshmem_dim3_t one = {1, 1, 1};
  nvshmemx_init_attr_t attributes;
  enum { kNotSupported = 3 };
  F(nvshmemx_flush)();
  F(nvshmemx_flush_on_stream)(NULL);
  *(uint64_t*)heap = 5;
  F(nvshmemx_signal_counted_reset)((uint64_t*)heap);
  CHECK(*(uint64_t*)heap == 0);
  CHECK(F(nvshmemx_region_start)(&handle, NULL) == 0 && F(nvshmemx_region_stop)(handle) == 0);
  CHECK(F(nvshmemx_region_is_active)(1, &active) == 0 && active == 0);
  CHECK(F(nvshmemx_mc_ptr)(0, heap) == NULL);
  CHECK(F(nvshmemx_buffer_register_symmetric)(heap, 64, 0) == NULL);
  CHECK(F(nvshmemx_buffer_register_symmetric_at_preferred_address)(heap, 64, heap, 0) == NULL);
  CHECK(F(nvshmemx_buffer_unregister_symmetric)(heap, 64) == kNotSupported);
  CHECK(F(nvshmemx_collective_launch)(heap, one, one, NULL, 0, NULL) == kNotSupported);
  CHECK(F(nvshmemx_collective_launch_attr)(NULL, heap, NULL) == kNotSupported);
  CHECK(F(nvshmemx_collective_launch_query_gridsize)(heap, one, NULL, 0, &grid) == kNotSupported);
  CHECK(F(nvshmemx_cumodule_init)(NULL) == kNotSupported);
  CHECK(F(nvshmemx_cumodule_finalize)(NULL) == kNotSupported);
  CHECK(F(nvshmemx_culibrary_init)(NULL) == kNotSupported);
  CHECK(F(nvshmemx_culibrary_finalize)(NULL) == kNotSupported);
  CHECK(F(nvshmemx_qp_create)(1, &queues) == kNotSupported);
  CHECK(F(nvshmemx_set_attr_mpi_comm_args)(heap, &attributes) == 0 && attributes.mpi_comm == heap);
  F(nvshmem_debug_log)(0, 0, "here", 1, "nothing");
}

/* The PEs in the opposite order, twice as many times as there is room for under way. */
static void teams_by_identifier(void) {
  uint64_t* ids = (uint64_t*)heap;
  for (int i = 0; i < 40; ++i) {
    nvshmem_team_t team = 77;
    nvshmem_team_config_t config = {.num_contexts = 3};
    if (me == i % pes) CHECK(F(nvshmemx_team_get_uniqueid)(&ids[0]) == 0);
    CHECK(F(nvshmem_uint64_broadcast)(0, ids + 1, ids, 1, i % pes) == 0);
    config.uniqueid = ids[1];
    CHECK(F(nvshmemx_team_init)(&team, &config, 0, pes, me) != 0 && team == NVSHMEM_TEAM_INVALID);
    /* All as its first member: none is made, and each may come again at once. */
    if (pes > 1) CHECK(F(nvshmemx_team_init)(&team, &config, 2, pes, 0) != 0 && team == NVSHMEM_TEAM_INVALID);
    CHECK(F(nvshmemx_team_init)(&team, &config, 2, pes, me) == 0 && F(nvshmem_team_my_pe)(team) == me);
    F(nvshmem_team_destroy)(team);
    if (me == 0 && pes > 1) goto next; /* no member */
    const int members = pes > 1 ? pes - 1 : 1, mine = pes - 1 - me;
    CHECK(F(nvshmemx_team_init)(&team, &config, 2, members, members) != 0);
    CHECK(F(nvshmemx_team_init)(&team, &config, 2, members, mine) == 0);
    CHECK(F(nvshmem_team_my_pe)(team) == mine && F(nvshmem_team_n_pes)(team) == members);
    CHECK(F(nvshmem_team_translate_pe)(team, 0, NVSHMEM_TEAM_WORLD) == pes - 1);
    CHECK(F(nvshmem_barrier)(team) == 0);
    F(nvshmem_team_destroy)(team);
  next:
    meet();
  }
}

static void memory(void) {
  int* counted = F(nvshmem_calloc)(4, sizeof(int));
  CHECK(counted != NULL && counted[3] == 0);
  void* page = F(nvshmem_align)(4096, 1);
  CHECK((uintptr_t)page % 4096 == 0);
  counted[0] = me;
  meet();
  const int* theirs = F(nvshmem_ptr)(counted, next_pe);
  CHECK(theirs != NULL && *theirs == next_pe);
  int here = 0;
  CHECK(F(nvshmem_ptr)(&here, 0) == NULL);
  CHECK(F(nvshmemx_buffer_register)(&here, sizeof here) == 0);
  CHECK(F(nvshmemx_buffer_unregister)(&here) == 0);
  F(nvshmemx_buffer_unregister_all)();
  meet();
  F(nvshmem_free)(page);
  F(nvshmem_free)(counted);
}

static void teams(void) {
  nvshmem_team_t even = 77, row = 77, column = 77;
  nvshmem_team_config_t config = {.num_contexts = 2};
  CHECK(F(nvshmem_team_my_pe)(NVSHMEM_TEAM_WORLD) == me);
  CHECK(F(nvshmem_team_n_pes)(NVSHMEM_TEAM_SHARED) == pes && F(nvshmem_team_n_pes)(NVSHMEMX_TEAM_NODE) == pes);
  CHECK(F(nvshmem_team_my_pe)(NVSHMEM_TEAM_INVALID) == -1);
  CHECK(F(nvshmem_team_split_strided)(0, 0, 2, (pes + 1) / 2, &config, 1, &even) == 0);
  CHECK(me % 2 == 0 ? even >= 6 : even == NVSHMEM_TEAM_INVALID);
  if (even >= 0) {
    CHECK(F(nvshmem_team_translate_pe)(even, me / 2, NVSHMEM_TEAM_WORLD) == me);
    config.num_contexts = 0;
    F(nvshmem_team_get_config)(even, &config);
    CHECK(config.num_contexts == 2);
    CHECK(F(nvshmem_barrier)(even) == 0 && F(nvshmem_team_sync)(even) == 0);
    CHECK(X(barrier)(even, NULL) == 0 && X(team_sync)(even, NULL) == 0);
  } else if (prints_names) {
    (void)F(nvshmem_team_translate_pe);
  }
  F(nvshmem_team_destroy)(even);
  F(nvshmem_team_destroy)(even); /* again: nothing */
  F(nvshmem_team_destroy)(NVSHMEM_TEAM_WORLD);
  CHECK(F(nvshmem_team_n_pes)(NVSHMEM_TEAM_WORLD) == pes);
  CHECK(F(nvshmem_team_split_2d)(0, 1, NULL, 0, &row, NULL, 0, &column) == 0);
  CHECK(F(nvshmem_team_n_pes)(row) == 1 && F(nvshmem_team_n_pes)(column) == pes);
  F(nvshmem_team_destroy)(row);
  F(nvshmem_team_destroy)(column);
}

/* By exit(), with its handlers: nobody hears of it. */
static void a_forked_child_ends_alone(void) {
  if (me == 0) {
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) exit(127);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 127);
  }
  meet();
}

static void order_and_signals(void) {
  uint64_t* flag = (uint64_t*)heap;
  *flag = 0;
  meet();
  F(nvshmemx_signal_op)(flag, 5, 9, next_pe);
  F(nvshmem_fence)();
  F(nvshmemx_signal_op_on_stream)(flag, 2, 10, next_pe, NULL);
  F(nvshmem_quiet)();
  F(nvshmemx_quiet_on_stream)(NULL);
  F(nvshmemx_signal_wait_until_on_stream)(flag, 0, 7, NULL);
  CHECK(F(nvshmem_signal_fetch)(flag) == 7);
  F(nvshmem_sync_all)();
  F(nvshmemx_sync_all_on_stream)(NULL);
  F(nvshmemx_barrier_all_on_stream)(NULL);
}

static void what_it_is(void) {
  int major = 0, minor = -1, patch = -1, level = -1;
  char name[256] = "";
  F(nvshmem_info_get_version)(&major, &minor);
  CHECK(major == 3 && minor >= 0);
  F(nvshmemx_vendor_get_version_info)(&major, &minor, &patch);
  CHECK(major == 3 && patch >= 0);
  F(nvshmem_info_get_name)(name);
  CHECK(strstr(name, "Towpath") != NULL);
  CHECK(strlen(F(nvshmemx_towpath_version)()) > 0);
  F(nvshmem_query_thread)(&level);
  CHECK(level == NVSHMEM_THREAD_SERIALIZED);
}

/* Initialised three ways, ended as often; then once more. */
static void in_a_job(void) {
  int provided = -1;
  CHECK(F(nvshmemx_init_status)() == NVSHMEM_STATUS_NOT_INITIALIZED);
  F(nvshmem_init)();
  CHECK(F(nvshmem_init_thread)(3, &provided) == 0 && provided == NVSHMEM_THREAD_SERIALIZED);
  CHECK(F(nvshmemx_init_attr)(0, NULL) == 0);
  CHECK(F(nvshmemx_hostlib_init_attr)(NVSHMEMX_INIT_WITH_MPI_COMM, NULL) != 0);
  CHECK(F(nvshmemx_hostlib_init_attr)(NVSHMEMX_INIT_WITH_UNIQUEID, NULL) != 0);
  CHECK(F(nvshmemx_init_status)() == NVSHMEM_STATUS_IS_INITIALIZED);
  me = F(nvshmem_my_pe)();
  pes = F(nvshmem_n_pes)();
  next_pe = (me + 1) % pes;
  heap = F(nvshmem_malloc)(4096);
  what_it_is();
  memory();
  teams();
  a_forked_child_ends_alone();
  order_and_signals();
#define RUN_TYPED(how, NAME, T) typed_##NAME(), moves_##NAME();
#define RUN_SIZED(how, BITS, BYTES) sized_##BITS();
#define RUN_REDUCE(OP, NAME, T) OP##_##NAME();
  TOWPATH_NVSHMEM_TYPES(RUN_TYPED, )
  TOWPATH_SHMEM_SIZES(RUN_SIZED, )
  RMA_TEST(putmem, getmem, void, 1);
  MOVES_TEST(, mem, void, 1);
  TOWPATH_SHMEM_BITS_REDUCE_TYPES(RUN_REDUCE, and)
  TOWPATH_SHMEM_BITS_REDUCE_TYPES(RUN_REDUCE, or)
  TOWPATH_SHMEM_BITS_REDUCE_TYPES(RUN_REDUCE, xor)
  TOWPATH_NVSHMEM_SUM_TYPES(RUN_REDUCE, max)
  TOWPATH_NVSHMEM_SUM_TYPES(RUN_REDUCE, min)
  TOWPATH_NVSHMEM_SUM_TYPES(RUN_REDUCE, sum)
  TOWPATH_NVSHMEM_SUM_TYPES(RUN_REDUCE, prod)
#define RUN_AMO(how, NAME, T) amo_##NAME();
#define RUN_BITS_AMO(OP, NAME, T) amo_##OP##_##NAME();
  TOWPATH_NVSHMEM_SHORT_TYPES(RUN_REDUCE, max)
  TOWPATH_NVSHMEM_SHORT_TYPES(RUN_REDUCE, min)
  TOWPATH_NVSHMEM_SHORT_TYPES(RUN_REDUCE, sum)
  TOWPATH_NVSHMEM_SHORT_TYPES(RUN_REDUCE, prod)
  TOWPATH_SHMEM_EXTENDED_AMO_TYPES(RUN_AMO, )
  TOWPATH_SHMEM_BITS_AMO_TYPES(RUN_BITS_AMO, and)
  TOWPATH_SHMEM_BITS_AMO_TYPES(RUN_BITS_AMO, or)
  TOWPATH_SHMEM_BITS_AMO_TYPES(RUN_BITS_AMO, xor)
  SHORT_WAIT_TEST(short, short);
  SHORT_WAIT_TEST(ushort, unsigned short);
  halves();
  without_a_gpu();
  teams_by_identifier();
  F(nvshmem_free)(heap);
  F(nvshmemid_hostlib_finalize)(NULL, NULL);
  CHECK(F(nvshmemid_init_status)() == NVSHMEM_STATUS_IS_INITIALIZED);
  CHECK(F(nvshmemid_hostlib_init_attr)(2, &provided, 0, NULL, (nvshmemi_version_t){3, 8, 0}, NULL) == 0);
  F(nvshmemi_finalize)();
  F(nvshmem_finalize)();
  CHECK(F(nvshmemx_init_status)() == NVSHMEM_STATUS_IS_INITIALIZED);
  F(nvshmemx_hostlib_finalize)();
  CHECK(F(nvshmemx_init_status)() == NVSHMEM_STATUS_NOT_INITIALIZED);
  CHECK(F(nvshmemx_hostlib_init_attr)(0, NULL) == 0);
  CHECK(F(nvshmem_n_pes)() == pes);
  F(nvshmemx_hostlib_finalize)();
  if (prints_names) (void)F(nvshmem_global_exit);
}

static void* one_user(void* unused) {
  (void)unused;
  F(nvshmem_init)();
  for (int i = 0; i < 50; ++i) {
    float* a = F(nvshmem_malloc)(1024);
    float value = 0;
    F(nvshmem_float_p)(a, 1.5F, 0);
    F(nvshmem_barrier_all)();
    F(nvshmem_float_get)(&value, a, 1, 0);
    if (value != 1.5F) ++failed_checks;
    F(nvshmem_free)(a);
  }
  F(nvshmem_finalize)();
  return NULL;
}

static void several_users_of_one_process(void) {
  pthread_t users[3];
  for (int i = 0; i < 3; ++i) pthread_create(&users[i], NULL, one_user, NULL);
  for (int i = 0; i < 3; ++i) pthread_join(users[i], NULL);
}

static int open_descriptors(void) {
  int count = 0;
  DIR* all = opendir("/proc/self/fd");
  while (all != NULL && readdir(all) != NULL) ++count;
  if (all != NULL) (void)closedir(all);
  return count;
}

/* One PE of two, with an identifier from the parent. */
static int by_id(int rank, const nvshmemx_uniqueid_t* id) {
  nvshmemx_init_attr_t attributes;
  memset(&attributes, 0, sizeof attributes);
  CHECK(setenv("NVSHMEM_SYMMETRIC_SIZE", "3m", 1) == 0); /* of PE 0 */
  CHECK(F(nvshmemx_set_attr_uniqueid_args)(rank, 2, id, &attributes) == 0);
  CHECK(attributes.version == 131216 && attributes.args.uid_args.version == 65560);
  CHECK(F(nvshmemx_hostlib_init_attr)(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0);
  CHECK(F(nvshmem_my_pe)() == rank && F(nvshmem_n_pes)() == 2);
  CHECK(F(nvshmem_malloc)(4 << 20) == NULL); /* with a reason */
  int* box = F(nvshmem_malloc)(sizeof(int));
  F(nvshmem_int_p)(box, 10 + rank, 1 - rank);
  F(nvshmem_barrier_all)();
  CHECK(*box == 10 + (1 - rank));
  me = rank, pes = 2, next_pe = 1 - rank;
  heap = F(nvshmem_malloc)(4096);
  sum_int(), sum_half(), amo_int(), amo_float(), halves(), teams_by_identifier();
  F(nvshmemx_hostlib_finalize)();
  return failed_checks != 0;
}

/* One job after the other: none keeps what it had. */
enum { kJobs = 4 };
static int by_ids(int rank, const nvshmemx_uniqueid_t* ids) {
  int at_first = 0;
  for (int job = 0; job < kJobs; ++job) {
    (void)by_id(rank, &ids[job]);
    CHECK(F(nvshmemx_init_status)() == NVSHMEM_STATUS_NOT_INITIALIZED);
    if (job == 0) at_first = open_descriptors();
    CHECK(open_descriptors() == at_first);
  }
  return failed_checks != 0;
}

static void two_processes_by_id(void) {
  nvshmemx_uniqueid_t ids[kJobs];
  int status = 0;
  for (int job = 0; job < kJobs; ++job)
    CHECK(F(nvshmemx_get_uniqueid)(&ids[job]) == 0 && ids[job].version == 65664);
  const pid_t child = fork();
  if (child == 0) _exit(by_ids(1, ids));
  (void)by_ids(0, ids);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int by_id_through(int rank, const char* pipe) {
  nvshmemx_uniqueid_t id;
  memset(&id, 0, sizeof id);
  if (rank == 0) CHECK(F(nvshmemx_get_uniqueid)(&id) == 0);
  FILE* file = fopen(pipe, rank == 0 ? "w" : "r");
  if (file == NULL) return 1;
  CHECK((rank == 0 ? fwrite(&id, sizeof id, 1, file) : fread(&id, sizeof id, 1, file)) == 1);
  (void)fclose(file);
  return by_id(rank, &id);
}

int main(int argc, char** argv) {
  const char* what = argc > 2 ? argv[2] : "";
  library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
  prints_names = strcmp(what, "names") == 0;
  if (strcmp(what, "alone") == 0)
    several_users_of_one_process();
  else if (strcmp(what, "id") == 0 && argc > 4)
    return by_id_through(atoi(argv[3]), argv[4]);
  else if (strcmp(what, "id") == 0)
    two_processes_by_id();
  else
    in_a_job();
  if (prints_names) (void)F(nvshmemx_get_uniqueid), (void)F(nvshmemx_set_attr_uniqueid_args);
  return failed_checks != 0;
}
