/* What programs do with the interface: the situations that the specification's examples show. */
#include "check.h"

/* Each PE sums the PE numbers by passing its partial sum around a ring. */
static void a_token_goes_around(void) {
  static long token;
  static uint64_t flag;
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  flag = 0;
  shmem_barrier_all();
  for (int round = 1; round <= 5; ++round) {
    if (me != 0) shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, (uint64_t)round);
    const long next = me == 0 && round == 1 ? 1 : token + 1;
    shmem_long_put_signal(&token, &next, 1, &flag, (uint64_t)round, SHMEM_SIGNAL_SET, next_pe());
    if (me == 0) shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, (uint64_t)round);
  }
  if (me == 0) CHECK(token == 5L * pes);
  shmem_barrier_all();
}

/* Parts of an integral, from all PEs, to the last bit the same everywhere. */
static void pi_is_summed(void) {
  static double part, pi;
  const int steps = 10000, me = shmem_my_pe(), pes = shmem_n_pes();
  part = 0;
  for (int i = me; i < steps; i += pes) {
    const double x = (i + 0.5) / steps;
    part += 4.0 / (1.0 + x * x) / steps;
  }
  shmem_barrier_all();
  CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, &pi, &part, 1) == 0);
  CHECK(pi > 3.14159 && pi < 3.14160);
  shmem_barrier_all(); /* a reduction says nothing of the others' results */
  CHECK(shmem_double_g(&pi, next_pe()) == pi);
  shmem_barrier_all();
}

/* PE 0 hands out indexes of work; each is done once. */
static void work_is_handed_out(void) {
  enum { kWork = 200 };
  static int next_work, done[kWork];
  shmem_barrier_all();
  for (int i; (i = shmem_int_atomic_fetch_inc(&next_work, 0)) < kWork;)
    shmem_int_atomic_inc(&done[i], 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0)
    for (int i = 0; i < kWork; ++i) CHECK(done[i] == 1);
}

/* Answers are taken as they come in, each once. */
static void answers_in_any_order(void) {
  static int answers[4];
  int taken[4] = {0}, sum = 0;
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  memset(answers, 0, sizeof answers);
  shmem_barrier_all();
  shmem_int_atomic_set(&answers[me], me + 1, 0);
  if (me == 0) {
    for (int left = pes; left > 0; --left) {
      const size_t i = shmem_int_wait_until_any(answers, (size_t)pes, taken, SHMEM_CMP_NE, 0);
      taken[i] = 1;
      sum += answers[i];
    }
    CHECK(sum == pes * (pes + 1) / 2);
  }
  shmem_barrier_all();
}

/* Rows and columns of a grid, each with its own sum. */
static void a_grid_is_summed(void) {
  static int value, row_sum, column_sum;
  const int me = shmem_my_pe(), pes = shmem_n_pes(), width = pes % 2 == 0 ? 2 : 1;
  shmem_team_t row = SHMEM_TEAM_INVALID, column = SHMEM_TEAM_INVALID;
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, width, NULL, 0, &row, NULL, 0, &column) == 0);
  value = me;
  CHECK(shmem_int_sum_reduce(row, &row_sum, &value, 1) == 0);
  CHECK(shmem_int_sum_reduce(column, &column_sum, &value, 1) == 0);
  const int first = me / width * width, height = pes / width;
  CHECK(row_sum == width * first + width * (width - 1) / 2);
  CHECK(column_sum == height * (me % width) + width * height * (height - 1) / 2);
  shmem_team_destroy(row);
  shmem_team_destroy(column);
}

/* Blocks of a matrix change places. */
static void a_matrix_is_transposed(void) {
  static int from[4], to[4];
  const int me = shmem_my_pe(), pes = shmem_n_pes();
  for (int i = 0; i < pes; ++i) from[i] = 10 * me + i;
  shmem_barrier_all();
  CHECK(shmem_int_alltoall(SHMEM_TEAM_WORLD, to, from, 1) == 0);
  for (int i = 0; i < pes; ++i) CHECK(to[i] == 10 * i + me);
  shmem_barrier_all();
}

const struct test_case example_cases[] = {{"example.a_token_goes_around", a_token_goes_around},
                                          {"example.pi_is_summed", pi_is_summed},
                                          {"example.work_is_handed_out", work_is_handed_out},
                                          {"example.answers_in_any_order", answers_in_any_order},
                                          {"example.a_grid_is_summed", a_grid_is_summed},
                                          {"example.a_matrix_is_transposed", a_matrix_is_transposed},
                                          {NULL, NULL}};
