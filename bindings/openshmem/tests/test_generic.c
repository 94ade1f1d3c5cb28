/* Functions chosen by the types of their arguments, each once. */
#include "check.h"

static void put_and_get(void) {
  static double box[4], mine[4];
  static uint64_t flag;
  const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
  const int pe = next_pe();
  double local[4] = {0};
  for (int i = 0; i < 4; ++i) mine[i] = shmem_my_pe() + i / 8.0;
  shmem_barrier_all();
  shmem_put(box, mine, 1, pe);
  shmem_put(ctx, box + 1, mine + 1, 1, pe);
  shmem_put_nbi(box + 2, mine + 2, 1, pe);
  shmem_put_nbi(ctx, box + 2, mine + 2, 1, pe);
  shmem_p(box + 3, mine[3], pe);
  shmem_p(ctx, box + 3, mine[3], pe);
  shmem_put_signal(box, mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);
  shmem_put_signal(ctx, box, mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);
  shmem_put_signal_nbi(box, mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);
  shmem_put_signal_nbi(ctx, box, mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);
  shmem_barrier_all();
  CHECK(flag == 4);
  for (int i = 0; i < 4; ++i) CHECK(box[i] == last_pe() + i / 8.0);
  shmem_get(local, mine, 2, pe);
  shmem_get(ctx, local, mine, 2, pe);
  shmem_get_nbi(local + 2, mine + 2, 2, pe);
  shmem_get_nbi(ctx, local + 2, mine + 2, 2, pe);
  const double* readable = mine;
  CHECK(local[3] == shmem_g(readable + 3, pe) && local[0] == shmem_g(ctx, mine, pe));
  shmem_barrier_all();
  shmem_iput(box, mine, 2, 1, 2, pe);
  shmem_iput(ctx, box + 1, mine + 2, 2, 1, 2, pe);
  shmem_barrier_all();
  CHECK(box[2] == last_pe() + 1 / 8.0 && box[3] == last_pe() + 3 / 8.0);
  shmem_barrier_all();
  shmem_ibput(box, mine, 2, 2, 2, 1, pe);
  shmem_ibput(ctx, box + 2, mine + 2, 2, 2, 2, 1, pe);
  shmem_barrier_all();
  CHECK(box[1] == last_pe() + 1 / 8.0 && box[3] == last_pe() + 3 / 8.0);
  shmem_iget(local, mine, 1, 2, 2, pe);
  shmem_iget(ctx, local + 2, mine + 1, 1, 2, 2, pe);
  CHECK(local[1] == pe + 2 / 8.0 && local[3] == pe + 3 / 8.0);
  shmem_ibget(local, mine, 2, 2, 2, 1, pe);
  shmem_ibget(ctx, local + 2, mine + 2, 2, 2, 2, 1, pe);
  CHECK(local[1] == pe + 1 / 8.0 && local[3] == pe + 3 / 8.0);
  shmem_signal_set(&flag, 5, pe);
  shmem_signal_add(ctx, &flag, 1, pe);
  CHECK(shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 6) == 6);
}

static void atomic_operations(void) {
  static unsigned int word;
  static float real;
  const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
  const int pe = next_pe();
  unsigned int fetched = 0;
  word = 0;
  shmem_barrier_all();
  shmem_atomic_set(&word, 1U, pe);
  shmem_atomic_inc(&word, pe);
  shmem_atomic_add(ctx, &word, 2U, pe);
  CHECK(shmem_atomic_fetch_inc(&word, pe) == 4);
  CHECK(shmem_atomic_fetch_add(ctx, &word, 5U, pe) == 5);
  CHECK(shmem_atomic_compare_swap(&word, 10U, 0xF0U, pe) == 10);
  shmem_atomic_or(&word, 0xFU, pe);
  shmem_atomic_and(&word, 0x3CU, pe);
  shmem_atomic_xor(ctx, &word, 1U, pe);
  CHECK(shmem_atomic_fetch(&word, pe) == 0x3D);
  CHECK(shmem_atomic_fetch_or(&word, 2U, pe) == 0x3D);
  CHECK(shmem_atomic_fetch_and(ctx, &word, 0xFU, pe) == 0x3F);
  CHECK(shmem_atomic_fetch_xor(&word, 0xFU, pe) == 0xF);
  CHECK(shmem_atomic_swap(&word, 3U, pe) == 0);
  shmem_atomic_fetch_nbi(&fetched, &word, pe);
  shmem_atomic_swap_nbi(&fetched, &word, 4U, pe);
  shmem_atomic_fetch_inc_nbi(&fetched, &word, pe);
  shmem_atomic_fetch_add_nbi(ctx, &fetched, &word, 1U, pe);
  CHECK(fetched == 5);
  shmem_atomic_compare_swap_nbi(&fetched, &word, 6U, 7U, pe);
  shmem_atomic_fetch_and_nbi(&fetched, &word, 6U, pe);
  shmem_atomic_fetch_or_nbi(&fetched, &word, 1U, pe);
  shmem_atomic_fetch_xor_nbi(&fetched, &word, 1U, pe);
  CHECK(fetched == 7);
  shmem_atomic_set(&real, 1.5F, pe);
  CHECK(shmem_atomic_fetch(&real, pe) == 1.5F && shmem_atomic_swap(ctx, &real, 2.5F, pe) == 1.5F);
  static int number;
  shmem_atomic_or(&number, 4, pe); /* shmem_int32_atomic_or() */
  CHECK(shmem_atomic_fetch(&number, pe) == 4);
}

static void waits_and_tests(void) {
  static long words[2];
  static volatile long watched;
  long wanted[2] = {3, 4};
  size_t places[2];
  shmem_barrier_all();
  shmem_p(words, 3L, next_pe());
  shmem_p(words + 1, 4L, next_pe());
  shmem_p((long*)&watched, 1L, next_pe());
  shmem_wait_until((long*)&watched, SHMEM_CMP_EQ, 1);
  shmem_wait_until_all(words, 2, NULL, SHMEM_CMP_GT, 2);
  CHECK(shmem_wait_until_any(words, 2, NULL, SHMEM_CMP_EQ, 4) == 1);
  CHECK(shmem_wait_until_some(words, 2, places, NULL, SHMEM_CMP_EQ, 3) == 1);
  shmem_wait_until_all_vector(words, 2, NULL, SHMEM_CMP_EQ, wanted);
  CHECK(shmem_wait_until_any_vector(words, 2, NULL, SHMEM_CMP_EQ, wanted) < 2);
  CHECK(shmem_wait_until_some_vector(words, 2, places, NULL, SHMEM_CMP_EQ, wanted) == 2);
  CHECK(shmem_test(words, SHMEM_CMP_EQ, 3) && shmem_test_all(words, 2, NULL, SHMEM_CMP_NE, 0));
  CHECK(shmem_test_any(words, 2, NULL, SHMEM_CMP_EQ, 4) == 1);
  CHECK(shmem_test_some(words, 2, places, NULL, SHMEM_CMP_GE, 3) == 2);
  CHECK(shmem_test_all_vector(words, 2, NULL, SHMEM_CMP_EQ, wanted));
  CHECK(shmem_test_any_vector(words, 2, NULL, SHMEM_CMP_EQ, wanted) < 2);
  CHECK(shmem_test_some_vector(words, 2, places, NULL, SHMEM_CMP_EQ, wanted) == 2);
}

static void collectives(void) {
  static unsigned char from[16], to[16];
  const shmem_team_t world = SHMEM_TEAM_WORLD;
  const int pes = shmem_n_pes();
  memset(from, 1, sizeof from);
  shmem_barrier_all();
  CHECK(shmem_sync(world) == 0);
  CHECK(shmem_broadcast(world, to, from, 1, 0) == 0 && shmem_collect(world, to, from, 1) == 0);
  CHECK(shmem_fcollect(world, to, from, 1) == 0 && shmem_alltoall(world, to, from, 1) == 0);
  CHECK(shmem_alltoalls(world, to, from, 1, 1, 1) == 0 && to[pes - 1] == 1);
  CHECK(shmem_max_reduce(world, to, from, 1) == 0 && shmem_min_reduce(world, to, from, 1) == 0);
  CHECK(shmem_sum_reduce(world, to, from, 1) == 0 && to[0] == pes);
  CHECK(shmem_sum_inscan(world, to, from, 1) == 0 && to[0] == shmem_my_pe() + 1);
  CHECK(shmem_sum_exscan(world, to, from, 1) == 0 && to[0] == shmem_my_pe());
  CHECK(shmem_prod_reduce(world, to, from, 1) == 0 && shmem_and_reduce(world, to, from, 1) == 0);
  CHECK(shmem_or_reduce(world, to, from, 1) == 0 && to[0] == 1);
  CHECK(shmem_xor_reduce(world, to, from, 1) == 0 && to[0] == pes % 2);
}

static void deprecated(void) {
  static int word;
  const int pe = next_pe();
  shmem_barrier_all();
  shmem_set(&word, 1, pe);
  shmem_inc(&word, pe);
  shmem_add(&word, 1, pe);
  CHECK(shmem_fetch(&word, pe) == 3 && shmem_finc(&word, pe) == 3 && shmem_fadd(&word, 1, pe) == 4);
  CHECK(shmem_cswap(&word, 5, 6, pe) == 5 && shmem_swap(&word, 7, pe) == 6);
  shmem_wait(&word, 0);
  shmem_barrier_all();
}

const struct test_case generic_cases[] = {{"generic.put_and_get", put_and_get},
                                          {"generic.atomic_operations", atomic_operations},
                                          {"generic.waits_and_tests", waits_and_tests},
                                          {"generic.collectives", collectives},
                                          {"generic.deprecated", deprecated},
                                          {NULL, NULL}};
