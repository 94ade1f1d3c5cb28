/* What is deprecated: active sets, short names, names of before OpenSHMEM. */
#include "check.h"

enum { kMost = 4 };
#define WHOLE 0, 0, shmem_n_pes()

static long sync_words[SHMEM_SYNC_SIZE], other_sync[SHMEM_SYNC_SIZE];

/* The first two PEs by themselves, again and again, and all of them in between. */
static void sets_meet(void) {
  static int count;
  shmem_barrier(WHOLE, sync_words);
  for (int i = 1; i <= 10 && shmem_n_pes() >= 2; ++i) {
    if (shmem_my_pe() < 2) {
      shmem_int_atomic_inc(&count, 0);
      shmem_barrier(0, 0, 2, sync_words);
      CHECK(shmem_int_atomic_fetch(&count, 0) == 2 * i);
      (shmem_sync)(0, 0, 2, sync_words);
    }
    shmem_sync(WHOLE, other_sync);
  }
  CHECK(sync_words[0] == SHMEM_SYNC_VALUE);
}

#define SET_TEST(how, BITS, T)                                                                  \
  static void sets_##BITS(void) {                                                               \
    static T from[4 * kMost], to[4 * kMost];                                                    \
    const int me = shmem_my_pe(), pes = shmem_n_pes();                                          \
    for (int i = 0; i < 4 * pes; ++i) from[i] = (T)(20 * me + i);                               \
    memset(to, 0, sizeof to);                                                                   \
    shmem_barrier_all();                                                                        \
    shmem_broadcast##BITS(to, from, 1, pes - 1, WHOLE, sync_words);                             \
    CHECK(to[0] == (T)(me == pes - 1 ? 0 : 20 * (pes - 1)));                                    \
    shmem_fcollect##BITS(to, from, 2, WHOLE, other_sync);                                       \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + i % 2));                \
    shmem_collect##BITS(to, from, (size_t)(me % 2), WHOLE, sync_words);                         \
    for (int i = 0; i < pes / 2; ++i) CHECK(to[i] == (T)(20 * (2 * i + 1)));                    \
    shmem_alltoall##BITS(to, from, 2, WHOLE, other_sync);                                       \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + 2 * me + i % 2));       \
    shmem_alltoalls##BITS(to, from, 1, 2, 2, WHOLE, sync_words);                                \
    for (int i = 0; i < 2 * pes; ++i) CHECK(to[i] == (T)(20 * (i / 2) + 4 * me + 2 * (i % 2))); \
    shmem_barrier_all();                                                                        \
    if (me % 2 == 0) { /* PEs 0 and 2 */                                                        \
      shmem_broadcast##BITS(to, from, 1, 0, 0, 1, (pes + 1) / 2, other_sync);                   \
      if (me > 0) CHECK(to[0] == 0);                                                            \
    }                                                                                           \
    shmem_barrier_all();                                                                        \
  }
SET_TEST(, 32, uint32_t)
SET_TEST(, 64, uint64_t)

#define REDUCE_BEGIN(T)                                    \
  static T from, to, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE]; \
  const int pes = shmem_n_pes();                           \
  from = (T)(1 << shmem_my_pe());                          \
  shmem_barrier_all();
#define BITS_TEST(how, NAME, T)                                              \
  static void bits_##NAME(void) {                                            \
    REDUCE_BEGIN(T)                                                          \
    shmem_##NAME##_and_to_all(&to, &from, 1, WHOLE, work, sync_words);       \
    CHECK(to == (T)(pes == 1));                                              \
    shmem_##NAME##_or_to_all(&to, &from, 1, WHOLE, work, other_sync);        \
    CHECK(to == (T)((1 << pes) - 1));                                        \
    shmem_##NAME##_xor_to_all(&to, &from, 1, WHOLE, work, sync_words);       \
    CHECK(to == (T)((1 << pes) - 1));                                        \
  }
TOWPATH_SHMEM_OLD_INTEGER_TYPES(BITS_TEST, )
#define ORDER_TEST(how, NAME, T)                                             \
  static void order_##NAME(void) {                                           \
    REDUCE_BEGIN(T)                                                          \
    shmem_##NAME##_max_to_all(&to, &from, 1, WHOLE, work, sync_words);       \
    CHECK(to == (T)(1 << (pes - 1)));                                        \
    shmem_##NAME##_min_to_all(&to, &from, 1, WHOLE, work, other_sync);       \
    CHECK(to == 1);                                                          \
  }
TOWPATH_SHMEM_OLD_ORDERED_TYPES(ORDER_TEST, )
#define SUM_TEST(how, NAME, T)                                               \
  static void sum_##NAME(void) {                                             \
    REDUCE_BEGIN(T)                                                          \
    int product = 1;                                                         \
    for (int pe = 0; pe < pes; ++pe) product *= 1 << pe;                     \
    shmem_##NAME##_sum_to_all(&to, &from, 1, WHOLE, work, sync_words);       \
    CHECK(to == (T)((1 << pes) - 1));                                        \
    shmem_##NAME##_prod_to_all(&to, &from, 1, WHOLE, work, other_sync);      \
    CHECK(to == (T)product);                                                 \
  }
TOWPATH_SHMEM_OLD_SUM_TYPES(SUM_TEST, )

#define AMO_TEST(how, NAME, T)                     \
  static void short_names_##NAME(void) {           \
    static T word;                                 \
    const int pe = next_pe();                      \
    shmem_barrier_all();                           \
    shmem_##NAME##_set(&word, 3, pe);              \
    CHECK(shmem_##NAME##_fetch(&word, pe) == 3);   \
    CHECK(shmem_##NAME##_swap(&word, 4, pe) == 3); \
    shmem_barrier_all();                           \
    CHECK(word == 4);                              \
  }
TOWPATH_SHMEM_OLD_AMO_TYPES(AMO_TEST, )
#define WORD_TEST(how, NAME, T)                        \
  static void words_##NAME(void) {                     \
    static T word;                                     \
    const int pe = next_pe();                          \
    word = 0;                                          \
    shmem_barrier_all();                               \
    CHECK(shmem_##NAME##_finc(&word, pe) == 0);        \
    CHECK(shmem_##NAME##_fadd(&word, 2, pe) == 1);     \
    CHECK(shmem_##NAME##_cswap(&word, 3, 5, pe) == 3); \
    shmem_##NAME##_inc(&word, pe);                     \
    shmem_##NAME##_add(&word, 4, pe);                  \
    shmem_barrier_all();                               \
    CHECK(word == 10);                                 \
  }
TOWPATH_SHMEM_OLD_WORD_TYPES(WORD_TEST, )
#define WAIT_TEST(how, NAME, T)                       \
  static void wait_##NAME(void) {                     \
    static T word;                                    \
    shmem_barrier_all();                              \
    shmem_##NAME##_p(&word, 5, next_pe());            \
    shmem_##NAME##_wait(&word, 0);                    \
    CHECK(word == 5);                                 \
  }
TOWPATH_SHMEM_OLD_INTEGER_TYPES(WAIT_TEST, )

/* Not by the macros of C11: as C++ and C99 call them. */
static void waits_of_longs(void) {
  static long word;
  shmem_barrier_all();
  shmem_long_p(&word, 5, next_pe());
  (shmem_wait)(&word, 0);
  (shmem_wait_until)(&word, SHMEM_CMP_EQ, 5);
  CHECK(word == 5);
}

/* PE 0 is no member: it returns at once, though the others have not come and never do. */
static void who_is_no_member_returns(void) {
  static int from, to, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
  static long counts[4];
  const int pes = shmem_n_pes();
  from = 7;
  to = 1;
  shmem_barrier_all();
  if (shmem_my_pe() == 0 && pes > 1) {
    shmem_barrier(1, 0, pes - 1, sync_words);
    shmem_sync(1, 0, pes - 1, sync_words);
    shmem_broadcast32(&to, &from, 1, 0, 1, 0, pes - 1, sync_words);
    shmem_collect32(&to, &from, 1, 1, 0, pes - 1, sync_words);
    shmem_alltoalls64(counts, counts, 1, 1, 1, 1, 0, pes - 1, sync_words);
    shmem_int_sum_to_all(&to, &from, 1, 1, 0, pes - 1, work, sync_words);
    CHECK(to == 1);
  }
  shmem_barrier_all();
}

static void names_of_before(void) {
  start_pes(0);
  CHECK(_my_pe() == shmem_my_pe() && _num_pes() == shmem_n_pes());
  char* a = shmalloc(10);
  a = shrealloc(a, 100);
  CHECK(a != NULL);
  shfree(a);
  a = shmemalign(1024, 10);
  CHECK((uintptr_t)a % 1024 == 0);
  shfree(a);
  shmem_set_cache_inv();
  shmem_set_cache_line_inv(sync_words);
  shmem_clear_cache_inv();
  shmem_clear_cache_line_inv(sync_words);
  shmem_udcflush();
  shmem_udcflush_line(sync_words);
}

#define CASE(KIND, NAME) {"old." #KIND "_" #NAME, KIND##_##NAME},
#define BITS_CASE(how, NAME, T) CASE(bits, NAME) CASE(wait, NAME)
#define ORDER_CASE(how, NAME, T) CASE(order, NAME)
#define SUM_CASE(how, NAME, T) CASE(sum, NAME)
#define AMO_CASE(how, NAME, T) CASE(short_names, NAME)
#define WORD_CASE(how, NAME, T) CASE(words, NAME)
const struct test_case old_cases[] = {
    {"old.sets_meet", sets_meet},
    {"old.sets_32", sets_32},
    {"old.sets_64", sets_64},
    TOWPATH_SHMEM_OLD_INTEGER_TYPES(BITS_CASE, ) TOWPATH_SHMEM_OLD_ORDERED_TYPES(ORDER_CASE, )
        TOWPATH_SHMEM_OLD_SUM_TYPES(SUM_CASE, ) TOWPATH_SHMEM_OLD_AMO_TYPES(AMO_CASE, )
            TOWPATH_SHMEM_OLD_WORD_TYPES(WORD_CASE, ){"old.names_of_before", names_of_before},
    {"old.waits_of_longs", waits_of_longs},
    {"old.who_is_no_member_returns", who_is_no_member_returns},
    {NULL, NULL}};
