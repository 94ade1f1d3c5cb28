/* Waits and tests, of every type; locks. */
#include "check.h"

#define WAIT_TEST(how, NAME, T)                                                                  \
  static void wait_##NAME(void) {                                                                \
    static T words[4];                                                                           \
    const int me = shmem_my_pe(), pe = next_pe();                                                \
    const int skip[4] = {0, 1, 0, 0};                                                            \
    T wanted[4] = {1, 9, 3, 4};                                                                  \
    size_t places[4];                                                                            \
    memset(words, 0, sizeof words);                                                              \
    shmem_barrier_all();                                                                         \
    CHECK(!shmem_##NAME##_test(words, SHMEM_CMP_NE, 0));                                         \
    CHECK(shmem_##NAME##_test_any(words, 4, skip, SHMEM_CMP_GT, 0) == SIZE_MAX);                 \
    CHECK(shmem_##NAME##_test_some(words, 4, places, NULL, SHMEM_CMP_GT, 0) == 0);               \
    CHECK(!shmem_##NAME##_test_all(words, 4, NULL, SHMEM_CMP_GE, 1));                            \
    CHECK(!shmem_##NAME##_test_all_vector(words, 4, skip, SHMEM_CMP_EQ, wanted));                \
    CHECK(shmem_##NAME##_test_any_vector(words, 4, skip, SHMEM_CMP_EQ, wanted) == SIZE_MAX);     \
    CHECK(shmem_##NAME##_test_some_vector(words, 4, places, skip, SHMEM_CMP_EQ, wanted) == 0);   \
    shmem_barrier_all();                                                                         \
    shmem_##NAME##_p(words, 1, pe);                                                              \
    shmem_##NAME##_wait_until(words, SHMEM_CMP_EQ, 1);                                           \
    CHECK(shmem_##NAME##_wait_until_any(words, 4, NULL, SHMEM_CMP_NE, 0) == 0);                  \
    CHECK(shmem_##NAME##_wait_until_some(words, 4, places, skip, SHMEM_CMP_NE, 0) == 1);         \
    CHECK(places[0] == 0);                                                                       \
    CHECK(shmem_##NAME##_wait_until_any_vector(words, 4, skip, SHMEM_CMP_EQ, wanted) == 0);      \
    CHECK(shmem_##NAME##_wait_until_some_vector(words, 4, places, skip, SHMEM_CMP_EQ, wanted) == 1); \
    shmem_barrier_all();                                                                         \
    for (int i = 1; i < 4; ++i) shmem_##NAME##_p(words + i, (T)(i + 1), pe);                     \
    shmem_##NAME##_wait_until_all(words, 4, NULL, SHMEM_CMP_GE, 1);                              \
    shmem_##NAME##_wait_until_all_vector(words, 4, skip, SHMEM_CMP_EQ, wanted);                  \
    CHECK(shmem_##NAME##_test_all(words, 4, NULL, SHMEM_CMP_LE, 4));                             \
    CHECK(!shmem_##NAME##_test_all(words, 4, NULL, SHMEM_CMP_LT, 4));                            \
    CHECK(shmem_##NAME##_test_all_vector(words, 4, skip, SHMEM_CMP_EQ, wanted));                 \
    CHECK(!shmem_##NAME##_test_all_vector(words, 4, NULL, SHMEM_CMP_EQ, wanted));                \
    CHECK(shmem_##NAME##_test_any(words, 4, NULL, SHMEM_CMP_GT, 3) == 3);                        \
    for (int seen[4] = {0}, i = 0; i < 8; ++i) {                                                 \
      ++seen[shmem_##NAME##_test_any(words, 4, skip, SHMEM_CMP_GT, 0)];                          \
      ++seen[shmem_##NAME##_wait_until_any(words, 4, skip, SHMEM_CMP_GT, 0)];                    \
      ++seen[shmem_##NAME##_test_any_vector(words, 4, skip, SHMEM_CMP_EQ, wanted)];              \
      ++seen[shmem_##NAME##_wait_until_any_vector(words, 4, skip, SHMEM_CMP_EQ, wanted)];        \
      CHECK(i < 7 || (seen[0] > 9 && seen[1] == 0 && seen[2] > 9 && seen[3] > 9));               \
    }                                                                                            \
    CHECK(shmem_##NAME##_test_some(words, 4, places, skip, SHMEM_CMP_GT, 1) == 2);               \
    CHECK(places[0] == 2 && places[1] == 3);                                                     \
    CHECK(shmem_##NAME##_test_some_vector(words, 4, places, skip, SHMEM_CMP_EQ, wanted) == 3);   \
    const int all[4] = {1, 1, 1, 1};                                                             \
    CHECK(shmem_##NAME##_wait_until_any(words, 4, all, SHMEM_CMP_EQ, 77) == SIZE_MAX);           \
    CHECK(shmem_##NAME##_wait_until_some(words, 0, places, NULL, SHMEM_CMP_EQ, 77) == 0);        \
    (void)me;                                                                                    \
    shmem_barrier_all();                                                                         \
  }
/* Put by the types that all of these have. */
TOWPATH_SHMEM_WAIT_TYPES(WAIT_TEST, )

static void negative_numbers_are_smaller(void) {
  static long word;
  word = -5;
  CHECK(shmem_long_test(&word, SHMEM_CMP_LT, 0));
  static unsigned long large;
  large = (unsigned long)-5;
  CHECK(shmem_ulong_test(&large, SHMEM_CMP_GT, 0));
}

/* Only one PE at a time is between set and clear, none is forgotten, and what it put to any PE, by
 * any context, is in place for the next. */
static void locks_exclude(void) {
  static long locks[8];
  static int counts[2];
  shmem_ctx_t own = SHMEM_CTX_INVALID;
  CHECK(shmem_ctx_create(0, &own) == 0);
  const int pes = shmem_n_pes() < 8 ? shmem_n_pes() : 8;
  for (int i = 0; i < 20 * pes; ++i) {
    const int pe = i % pes;
    shmem_set_lock(&locks[pe]);
    shmem_int_p(&counts[0], shmem_int_g(&counts[0], pe) + 1, pe);
    shmem_ctx_int_p(own, &counts[1], shmem_int_g(&counts[1], pe) + 1, pe);
    shmem_clear_lock(&locks[pe]);
  }
  shmem_barrier_all();
  for (int which = 0; which < 2; ++which)
    CHECK(shmem_my_pe() >= pes || counts[which] == 20 * shmem_n_pes());
  shmem_ctx_destroy(own);
}

static void locks_can_be_tried(void) {
  static long lock;
  if (shmem_my_pe() == 0) CHECK(shmem_test_lock(&lock) == 0);
  shmem_barrier_all();
  if (shmem_my_pe() != 0) CHECK(shmem_test_lock(&lock) == 1);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) shmem_clear_lock(&lock);
  shmem_barrier_all();
  while (shmem_test_lock(&lock) != 0) {
  }
  shmem_clear_lock(&lock);
}

#define WAIT_CASE(how, NAME, T) {"wait." #NAME, wait_##NAME},
const struct test_case wait_cases[] = {
    TOWPATH_SHMEM_WAIT_TYPES(WAIT_CASE, ){"wait.negative_numbers_are_smaller", negative_numbers_are_smaller},
    {"wait.locks_exclude", locks_exclude},
    {"wait.locks_can_be_tried", locks_can_be_tried},
    {NULL, NULL}};
