/* Teams, contexts, and collectives on teams, of every type. */
#include "check.h"

#include <malloc.h>

enum { kMost = 4 }; /* PEs that these are run with */

static void predefined_teams(void) {
  CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == shmem_my_pe());
  CHECK(shmem_team_n_pes(SHMEM_TEAM_WORLD) == shmem_n_pes());
  int here = 0; /* whom loads and stores reach */
  for (int pe = 0; pe < shmem_n_pes(); ++pe)
    here += shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED) >= 0;
  CHECK(here >= 1 && shmem_team_n_pes(SHMEM_TEAM_SHARED) == here);
  CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
  CHECK(shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
  CHECK(shmem_team_translate_pe(SHMEM_TEAM_SHARED, shmem_team_my_pe(SHMEM_TEAM_SHARED),
                                SHMEM_TEAM_WORLD) == shmem_my_pe());
  CHECK(shmem_team_sync(SHMEM_TEAM_WORLD) == 0);
  CHECK(shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
  shmem_team_destroy(SHMEM_TEAM_INVALID);
}

static void strided_splits(void) {
  const int me = shmem_my_pe(), size = (shmem_n_pes() + 1) / 2;
  const shmem_team_config_t config = {.num_contexts = 3};
  shmem_team_config_t reported = {0};
  shmem_team_t even = SHMEM_TEAM_INVALID;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, size, &config, SHMEM_TEAM_NUM_CONTEXTS,
                                 &even) == 0);
  CHECK((even != SHMEM_TEAM_INVALID) == (me % 2 == 0));
  if (even != SHMEM_TEAM_INVALID) {
    CHECK(shmem_team_my_pe(even) == me / 2 && shmem_team_n_pes(even) == size);
    CHECK(shmem_team_translate_pe(even, size - 1, SHMEM_TEAM_WORLD) == 2 * (size - 1));
    CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &reported) == 0);
    CHECK(reported.num_contexts == 3);
    shmem_team_t reversed = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(even, size - 1, -1, size, NULL, 0, &reversed) == 0);
    CHECK(shmem_team_my_pe(reversed) == size - 1 - me / 2);
    shmem_team_destroy(reversed);
    CHECK(shmem_team_my_pe(reversed) == -1);
    shmem_team_destroy(even);
  }
  CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &reported) != 0);
  shmem_team_t none = SHMEM_TEAM_WORLD;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes() + 1, NULL, 0, &none) != 0);
  CHECK(none == SHMEM_TEAM_INVALID);
}

/* Bytes that the program has of malloc(); 0 where that is not known. */
static size_t bytes_in_use(void) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
  return mallinfo2().uordblks;
#endif
#endif
  return 0;
}

static void teams_leave_nothing_behind(void) {
  const shmem_team_config_t config = {.num_contexts = 2};
  size_t before = 0;
  for (int i = 0; i < 600; ++i) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    if (i == 100) before = bytes_in_use();
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), &config,
                                   SHMEM_TEAM_NUM_CONTEXTS, &team) == 0);
    shmem_team_destroy(team);
  }
  /* A row for each was 64 bytes. Messages between hosts have buffers that come and go. */
  if (shmem_team_n_pes(SHMEM_TEAM_SHARED) == shmem_n_pes())
    CHECK(bytes_in_use() < before + 500 * 20);
}

static void two_dimensions(void) {
  const int me = shmem_my_pe(), pes = shmem_n_pes(), range = pes < 2 ? 1 : 2;
  shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, range, NULL, 0, &x, NULL, 0, &y) == 0);
  CHECK(shmem_team_my_pe(x) == me % range && shmem_team_my_pe(y) == me / range);
  CHECK(shmem_team_translate_pe(x, 0, SHMEM_TEAM_WORLD) == me - me % range);
  CHECK(shmem_team_translate_pe(y, 0, SHMEM_TEAM_WORLD) == me % range);
  shmem_team_destroy(x);
  shmem_team_destroy(y);
}

/* PEs are counted in the team of the context. */
static void contexts_of_teams(void) {
  static int word;
  const int pes = shmem_n_pes(), me = shmem_my_pe();
  shmem_team_t reversed = SHMEM_TEAM_INVALID, team = SHMEM_TEAM_INVALID;
  shmem_ctx_t ctx = SHMEM_CTX_INVALID;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &reversed) == 0);
  CHECK(shmem_team_create_ctx(reversed, SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED, &ctx) == 0);
  CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == reversed);
  shmem_ctx_int_p(ctx, &word, 10 + me, me); /* in the world: PE pes - 1 - me */
  shmem_ctx_fence(ctx);
  shmem_ctx_quiet(ctx);
  shmem_barrier_all();
  CHECK(word == 10 + pes - 1 - me);
  shmem_ctx_destroy(ctx);
  shmem_team_destroy(reversed);
  CHECK(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team) == 0 && team == SHMEM_TEAM_WORLD);
  CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0 && team == SHMEM_TEAM_INVALID);
  CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
  shmem_ctx_destroy(SHMEM_CTX_INVALID);
}

/* What was put by a context is in place when it is destroyed, or its PE is quiet: a third PE that
 * hears of it sees it. */
static void contexts_end_complete(void) {
  static long put, heard;
  const int me = shmem_my_pe(), last = shmem_n_pes() - 1, reader = last > 0 ? 1 : 0;
  for (long round = 1; round <= 50; ++round) {
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    if (me == 0) {
      CHECK(shmem_ctx_create(0, &ctx) == 0);
      shmem_ctx_long_p(ctx, &put, round, last);
      if (round % 3 == 0) shmem_pe_quiet(&last, 1);
      if (round % 3 == 1) shmem_ctx_pe_quiet(ctx, &last, 1);
      shmem_pe_quiet(NULL, 0);
      if (round % 3 == 2) shmem_ctx_destroy(ctx);
      shmem_long_atomic_set(&heard, round, reader);
      if (round % 3 != 2) shmem_ctx_destroy(ctx);
    }
    if (me == reader) {
      shmem_long_wait_until(&heard, SHMEM_CMP_GE, round);
      CHECK(shmem_long_g(&put, last) == round);
    }
    shmem_barrier_all();
  }
}

/* Two elements of each PE, and room for those of all. */
#define COLLECTIVE_TEST(how, NAME, T)                                                          \
  static void collective_##NAME(void) {                                                        \
    static T from[2 * 2 * kMost], to[2 * 2 * kMost];                                           \
    const shmem_team_t world = SHMEM_TEAM_WORLD;                                               \
    const int me = shmem_my_pe(), pes = shmem_n_pes();                                         \
    for (int i = 0; i < 4 * pes; ++i) from[i] = (T)(20 * me + i);                              \
    shmem_barrier_all();                                                                       \
    CHECK(shmem_##NAME##_broadcast(world, to, from, 2, pes - 1) == 0);                         \
    CHECK(to[0] == (T)(20 * (pes - 1)) && to[1] == (T)(20 * (pes - 1) + 1));                   \
    CHECK(shmem_##NAME##_fcollect(world, to, from, 2) == 0);                                   \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + i % 2));               \
    /* as many elements as the PE's number says */                                             \
    CHECK(shmem_##NAME##_collect(world, to, from, (size_t)(me % 2)) == 0);                     \
    for (int i = 0; i < pes / 2; ++i) CHECK(to[i] == (T)(20 * (2 * i + 1)));                   \
    CHECK(shmem_##NAME##_alltoall(world, to, from, 2) == 0);                                   \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + 2 * me + i % 2));      \
    CHECK(shmem_##NAME##_alltoalls(world, to, from, 1, 2, 2) == 0);                            \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + 4 * me + 2 * (i % 2))); \
    shmem_barrier_all();                                                                       \
  }
TOWPATH_SHMEM_RMA_TYPES(COLLECTIVE_TEST, )

/* What one call brought is nothing that the next one has done. */
static void clear(char* target, size_t size) {
  shmem_barrier_all();
  memset(target, 0, size);
  shmem_barrier_all();
}

static void collective_mem(void) {
  static char from[2 * kMost], to[2 * kMost];
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  memset(from, 'a' + me, sizeof from);
  shmem_barrier_all();
  CHECK(shmem_broadcastmem(SHMEM_TEAM_WORLD, to, from, 2, 0) == 0 && to[1] == 'a');
  clear(to, sizeof to);
  CHECK(shmem_fcollectmem(SHMEM_TEAM_WORLD, to, from, 2) == 0 && to[2 * pes - 1] == 'a' + pes - 1);
  clear(to, sizeof to);
  CHECK(shmem_collectmem(SHMEM_TEAM_WORLD, to, from, me == 0 ? 2 : 1) == 0 && to[pes] == 'a' + pes - 1);
  clear(to, sizeof to);
  CHECK(shmem_alltoallmem(SHMEM_TEAM_WORLD, to, from, 1) == 0 && to[pes - 1] == 'a' + pes - 1);
  clear(to, sizeof to);
  CHECK(shmem_alltoallsmem(SHMEM_TEAM_WORLD, to, from, 2, 1, 1) == 0 && to[2 * pes - 2] == 'a' + pes - 1);
  shmem_barrier_all();
}

/* What each PE has in two elements; all of it fits into a byte. */
#define REDUCE_BEGIN(T)                     \
  static T from[2], to[2];                  \
  const shmem_team_t world = SHMEM_TEAM_WORLD; \
  const int me = shmem_my_pe(), pes = shmem_n_pes(); \
  from[0] = (T)(me + 1);                    \
  from[1] = (T)(1 << me);                   \
  shmem_barrier_all();
#define BITS_REDUCE_TEST(how, NAME, T)                                                       \
  static void bits_reduce_##NAME(void) {                                                     \
    REDUCE_BEGIN(T)                                                                          \
    int all_and = 1, all_or = 0, all_xor = 0;                                                \
    for (int pe = 0; pe < pes; ++pe) {                                                       \
      all_and &= pe + 1;                                                                     \
      all_or |= pe + 1;                                                                      \
      all_xor ^= pe + 1;                                                                     \
    }                                                                                        \
    CHECK(shmem_##NAME##_and_reduce(world, to, from, 2) == 0 && to[0] == (T)all_and);        \
    CHECK(to[1] == (pes == 1));                                                              \
    CHECK(shmem_##NAME##_or_reduce(world, to, from, 2) == 0 && to[0] == (T)all_or);          \
    CHECK(to[1] == (T)((1 << pes) - 1));                                                     \
    CHECK(shmem_##NAME##_xor_reduce(world, to, from, 2) == 0 && to[0] == (T)all_xor);        \
    CHECK(to[1] == (T)((1 << pes) - 1));                                                     \
    shmem_barrier_all();                                                                     \
  }
TOWPATH_SHMEM_BITS_REDUCE_TYPES(BITS_REDUCE_TEST, )

#define ORDER_REDUCE_TEST(how, NAME, T)                                                   \
  static void order_reduce_##NAME(void) {                                                 \
    REDUCE_BEGIN(T)                                                                       \
    CHECK(shmem_##NAME##_max_reduce(world, to, from, 2) == 0 && to[0] == (T)pes);         \
    CHECK(to[1] == (T)(1 << (pes - 1)));                                                  \
    CHECK(shmem_##NAME##_min_reduce(world, to, from, 2) == 0 && to[0] == 1 && to[1] == 1); \
    (void)me;                                                                             \
    shmem_barrier_all();                                                                  \
  }
TOWPATH_SHMEM_RMA_TYPES(ORDER_REDUCE_TEST, )

#define SUM_REDUCE_TEST(how, NAME, T)                                                          \
  static void sum_reduce_##NAME(void) {                                                        \
    REDUCE_BEGIN(T)                                                                            \
    int product = 1;                                                                           \
    for (int pe = 0; pe < pes; ++pe) product *= 1 << pe;                                       \
    CHECK(shmem_##NAME##_prod_reduce(world, to, from, 2) == 0 && to[1] == (T)product);         \
    CHECK(shmem_##NAME##_sum_reduce(world, to, from, 2) == 0);                                 \
    CHECK(to[0] == (T)(pes * (pes + 1) / 2) && to[1] == (T)((1 << pes) - 1));                  \
    /* in place */                                                                             \
    CHECK(shmem_##NAME##_sum_reduce(world, from, from, 1) == 0 && from[0] == to[0]);           \
    shmem_barrier_all();                                                                       \
    from[0] = (T)(me + 1);                                                                     \
    CHECK(shmem_##NAME##_sum_inscan(world, to, from, 2) == 0);                                 \
    CHECK(to[0] == (T)((me + 1) * (me + 2) / 2) && to[1] == (T)((2 << me) - 1));               \
    CHECK(shmem_##NAME##_sum_exscan(world, to, from, 2) == 0);                                 \
    CHECK(to[0] == (T)(me * (me + 1) / 2) && to[1] == (T)((1 << me) - 1));                     \
    CHECK(shmem_##NAME##_sum_exscan(world, from, from, 1) == 0 && from[0] == to[0]);           \
    shmem_barrier_all();                                                                       \
  }
TOWPATH_SHMEM_SUM_TYPES(SUM_REDUCE_TEST, )

/* Minima of negative numbers, and a part of the PEs. */
static void reductions_of_a_team(void) {
  static int from, to;
  shmem_team_t even = SHMEM_TEAM_INVALID;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (shmem_n_pes() + 1) / 2, NULL, 0, &even);
  from = -shmem_my_pe();
  to = 77;
  shmem_barrier_all();
  if (even != SHMEM_TEAM_INVALID) {
    CHECK(shmem_int_min_reduce(even, &to, &from, 1) == 0);
    CHECK(to == -2 * (shmem_team_n_pes(even) - 1));
    CHECK(shmem_int_sum_inscan(even, &to, &from, 1) == 0);
    const int mine = shmem_team_my_pe(even);
    CHECK(to == -mine * (mine + 1)); /* of even numbers */
    shmem_team_destroy(even);
  } else {
    CHECK(shmem_int_min_reduce(even, &to, &from, 1) != 0 && to == 77);
    CHECK(shmem_int_sum_exscan(even, &to, &from, 1) != 0 && to == 77);
  }
}

/* A difference is reported to all, and nobody hangs. */
static void calls_that_differ_are_refused(void) {
  static int from, to;
  if (shmem_n_pes() == 1) return;
  const size_t count = shmem_my_pe() == 0 ? 0 : 1;
  CHECK(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &to, &from, count) != 0);
}

#define COLLECTIVE_CASE(how, NAME, T) {"team.collective_" #NAME, collective_##NAME}, {"team.order_" #NAME, order_reduce_##NAME},
#define BITS_CASE(how, NAME, T) {"team.bits_" #NAME, bits_reduce_##NAME},
#define SUM_CASE(how, NAME, T) {"team.sum_" #NAME, sum_reduce_##NAME},
const struct test_case team_cases[] = {
    {"team.predefined_teams", predefined_teams},
    {"team.strided_splits", strided_splits},
    {"team.teams_leave_nothing_behind", teams_leave_nothing_behind},
    {"team.two_dimensions", two_dimensions},
    {"team.contexts_of_teams", contexts_of_teams},
    {"team.contexts_end_complete", contexts_end_complete},
    TOWPATH_SHMEM_RMA_TYPES(COLLECTIVE_CASE, ) TOWPATH_SHMEM_BITS_REDUCE_TYPES(BITS_CASE, )
        TOWPATH_SHMEM_SUM_TYPES(SUM_CASE, ){"team.collective_mem", collective_mem},
    {"team.reductions_of_a_team", reductions_of_a_team},
    {"team.calls_that_differ_are_refused", calls_that_differ_are_refused},
    {NULL, NULL}};
