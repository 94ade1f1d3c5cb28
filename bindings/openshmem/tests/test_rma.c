/* Put and get, of every type and size, with the default context and another, on variables. */
#include "check.h"

enum { kCount = 6 };

/* What PE `pe` has in element `i`. */
#define AT(T, pe, i) ((T)(10 * (pe) + (i) + 1))

/* `box` gets from the PE before; `mine` is read by the PE before. */
#define RMA_TEST(how, NAME, T)                                                        \
  static T NAME##_box[kCount], NAME##_mine[kCount];                                   \
  static void rma_##NAME(void) {                                                      \
    const int me = shmem_my_pe(), next = next_pe(), last = last_pe();                 \
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;                                              \
    CHECK(shmem_ctx_create(0, &ctx) == 0);                                            \
    T local[kCount];                                                                  \
    for (int i = 0; i < kCount; ++i) NAME##_mine[i] = AT(T, me, i);                   \
    shmem_barrier_all();                                                              \
    shmem_##NAME##_put(NAME##_box, NAME##_mine, 1, next);                             \
    shmem_ctx_##NAME##_put(ctx, NAME##_box + 1, NAME##_mine + 1, 1, next);            \
    shmem_##NAME##_put_nbi(NAME##_box + 2, NAME##_mine + 2, 1, next);                 \
    shmem_ctx_##NAME##_put_nbi(ctx, NAME##_box + 3, NAME##_mine + 3, 1, next);        \
    shmem_##NAME##_p(NAME##_box + 4, NAME##_mine[4], next);                           \
    shmem_ctx_##NAME##_p(ctx, NAME##_box + 5, NAME##_mine[5], next);                  \
    shmem_barrier_all();                                                              \
    for (int i = 0; i < kCount; ++i) CHECK(NAME##_box[i] == AT(T, last, i));          \
    shmem_##NAME##_get(local, NAME##_mine, 2, next);                                  \
    shmem_ctx_##NAME##_get(ctx, local + 2, NAME##_mine + 2, 1, next);                 \
    shmem_##NAME##_get_nbi(local + 3, NAME##_mine + 3, 2, next);                      \
    shmem_ctx_##NAME##_get_nbi(ctx, local + 5, NAME##_mine + 5, 1, next);             \
    shmem_quiet();                                                                    \
    for (int i = 0; i < kCount; ++i) CHECK(local[i] == AT(T, next, i));               \
    CHECK(shmem_##NAME##_g(NAME##_mine + 3, next) == AT(T, next, 3));                 \
    CHECK(shmem_ctx_##NAME##_g(ctx, NAME##_mine + 4, next) == AT(T, next, 4));        \
    shmem_barrier_all();                                                              \
    shmem_##NAME##_iput(NAME##_box, NAME##_mine, 2, 1, 3, next);                      \
    shmem_ctx_##NAME##_iput(ctx, NAME##_box + 1, NAME##_mine + 3, 2, 1, 3, next);     \
    shmem_barrier_all();                                                              \
    for (int i = 0; i < 3; ++i) {                                                     \
      CHECK(NAME##_box[2 * i] == AT(T, last, i));                                     \
      CHECK(NAME##_box[2 * i + 1] == AT(T, last, 3 + i));                             \
    }                                                                                 \
    shmem_##NAME##_iget(local, NAME##_mine, 1, 2, 3, next);                           \
    shmem_ctx_##NAME##_iget(ctx, local + 3, NAME##_mine + 1, 1, 2, 3, next);          \
    for (int i = 0; i < 3; ++i) {                                                     \
      CHECK(local[i] == AT(T, next, 2 * i));                                          \
      CHECK(local[3 + i] == AT(T, next, 2 * i + 1));                                  \
    }                                                                                 \
    shmem_barrier_all();                                                              \
    for (int i = 0; i < kCount; ++i) NAME##_box[i] = 0;                               \
    shmem_barrier_all();                                                              \
    shmem_##NAME##_ibput(NAME##_box, NAME##_mine, 3, 2, 2, 2, next);                  \
    shmem_ctx_##NAME##_ibput(ctx, NAME##_box + 2, NAME##_mine + 4, 3, 1, 1, 2, next); \
    shmem_barrier_all();                                                              \
    const int places[kCount] = {0, 1, 4, 2, 3, 5};                                    \
    for (int i = 0; i < kCount; ++i) CHECK(NAME##_box[i] == AT(T, last, places[i]));  \
    shmem_##NAME##_ibget(local, NAME##_mine, 2, 3, 2, 2, next);                       \
    shmem_ctx_##NAME##_ibget(ctx, local + 4, NAME##_mine + 2, 1, 3, 1, 2, next);      \
    const int places_got[kCount] = {0, 1, 3, 4, 2, 5};                                \
    for (int i = 0; i < kCount; ++i) CHECK(local[i] == AT(T, next, places_got[i]));   \
    shmem_ctx_destroy(ctx);                                                           \
    shmem_barrier_all();                                                              \
  }
TOWPATH_SHMEM_RMA_TYPES(RMA_TEST, )

#define SIGNAL_TEST(how, NAME, T)                                                              \
  static void signal_##NAME(void) {                                                            \
    static uint64_t flag;                                                                      \
    static T box[4];                                                                           \
    const T values[4] = {1, 2, 3, 4};                                                          \
    flag = 0;                                                                                  \
    memset(box, 0, sizeof box);                                                                \
    shmem_barrier_all();                                                                       \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                                                 \
    const int pe = next_pe();                                                                  \
    shmem_##NAME##_put_signal(box, values, 1, &flag, 5, SHMEM_SIGNAL_SET, pe);                 \
    shmem_##NAME##_put_signal_nbi(box + 1, values + 1, 1, &flag, 2, SHMEM_SIGNAL_ADD, pe);     \
    shmem_ctx_##NAME##_put_signal(ctx, box + 2, values + 2, 1, &flag, 2, SHMEM_SIGNAL_ADD, pe); \
    shmem_ctx_##NAME##_put_signal_nbi(ctx, box + 3, values + 3, 1, &flag, 2, SHMEM_SIGNAL_ADD, \
                                      pe);                                                     \
    CHECK(shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 11) == 11);                             \
    CHECK(shmem_signal_fetch(&flag) == 11);                                                    \
    CHECK(memcmp(box, values, sizeof box) == 0);                                               \
    shmem_barrier_all();                                                                       \
  }
/* Bytes behind the value of a long double are nobody's: it is compared in rma_longdouble(). */
#define SIGNAL_TYPES(X, how)              \
  TOWPATH_SHMEM_SMALL_TYPES(X, how)       \
  TOWPATH_SHMEM_WORD_TYPES(X, how)        \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how) \
  TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how) \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)  \
  TOWPATH_SHMEM_SIZE_TYPES(X, how)
SIGNAL_TYPES(SIGNAL_TEST, )

static void signal_longdouble(void) {
  static uint64_t flag;
  static long double box[2];
  const long double value = 1.5L;
  shmem_longdouble_put_signal(box, &value, 1, &flag, 1, SHMEM_SIGNAL_ADD, next_pe());
  shmem_longdouble_put_signal_nbi(box, &value, 1, &flag, 1, SHMEM_SIGNAL_ADD, next_pe());
  shmem_ctx_longdouble_put_signal(SHMEM_CTX_DEFAULT, box + 1, &value, 1, &flag, 1,
                                  SHMEM_SIGNAL_ADD, next_pe());
  shmem_ctx_longdouble_put_signal_nbi(SHMEM_CTX_DEFAULT, box + 1, &value, 1, &flag, 1,
                                      SHMEM_SIGNAL_ADD, next_pe());
  shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 4);
  CHECK(box[0] == value && box[1] == value);
}

/* Elements of BYTES bytes each. */
#define BYTES_TEST(NAME, BYTES)                                                                   \
  static void bytes_##NAME(void) {                                                                \
    static uint64_t flag;                                                                         \
    static char box[8 * (BYTES)], mine[8 * (BYTES)];                                              \
    char local[8 * (BYTES)], theirs[8 * (BYTES)];                                                 \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                                                    \
    const int pe = next_pe();                                                                     \
    flag = 0;                                                                                     \
    memset(mine, 'a' + shmem_my_pe(), sizeof mine);                                               \
    memset(theirs, 'a' + pe, sizeof theirs);                                                      \
    shmem_barrier_all();                                                                          \
    shmem_put##NAME(box, mine, 1, pe);                                                            \
    shmem_put##NAME##_nbi(box + (BYTES), mine, 1, pe);                                            \
    shmem_ctx_put##NAME(ctx, box + 2 * (BYTES), mine, 1, pe);                                     \
    shmem_ctx_put##NAME##_nbi(ctx, box + 3 * (BYTES), mine, 1, pe);                               \
    shmem_put##NAME##_signal(box + 4 * (BYTES), mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);         \
    shmem_put##NAME##_signal_nbi(box + 5 * (BYTES), mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe);     \
    shmem_ctx_put##NAME##_signal(ctx, box + 6 * (BYTES), mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, pe); \
    shmem_ctx_put##NAME##_signal_nbi(ctx, box + 7 * (BYTES), mine, 1, &flag, 1, SHMEM_SIGNAL_ADD, \
                                     pe);                                                         \
    shmem_barrier_all();                                                                          \
    CHECK(shmem_signal_fetch(&flag) == 4);                                                        \
    memset(local, 'a' + last_pe(), sizeof local);                                                 \
    CHECK(memcmp(box, local, sizeof box) == 0);                                                   \
    memset(local, 0, sizeof local);                                                               \
    shmem_get##NAME(local, mine, 2, pe);                                                          \
    shmem_get##NAME##_nbi(local + 2 * (BYTES), mine, 2, pe);                                      \
    shmem_ctx_get##NAME(ctx, local + 4 * (BYTES), mine, 2, pe);                                   \
    shmem_ctx_get##NAME##_nbi(ctx, local + 6 * (BYTES), mine, 2, pe);                             \
    CHECK(memcmp(local, theirs, sizeof local) == 0);                                              \
    shmem_barrier_all();                                                                          \
  }
#define STRIDED_TEST(how, BITS, BYTES)                                                 \
  BYTES_TEST(BITS, BYTES)                                                              \
  static void strided_##BITS(void) {                                                   \
    static char box[6 * (BYTES)], mine[6 * (BYTES)];                                   \
    char local[6 * (BYTES)];                                                           \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                                         \
    memset(box, 0, sizeof box);                                                        \
    for (size_t i = 0; i < sizeof mine; ++i) mine[i] = (char)(i / (BYTES));            \
    shmem_barrier_all();                                                               \
    shmem_iput##BITS(box, mine, 2, 1, 3, next_pe());                                   \
    shmem_ctx_iput##BITS(ctx, box + (BYTES), mine + 3 * (BYTES), 2, 1, 3, next_pe());  \
    shmem_barrier_all();                                                               \
    for (int i = 0; i < 6; ++i) CHECK(box[i * (BYTES)] == i / 2 + i % 2 * 3);          \
    shmem_iget##BITS(local, mine, 1, 2, 3, next_pe());                                 \
    shmem_ctx_iget##BITS(ctx, local + 3 * (BYTES), mine + (BYTES), 1, 2, 3, next_pe()); \
    for (int i = 0; i < 6; ++i) CHECK(local[i * (BYTES)] == i % 3 * 2 + i / 3);        \
    shmem_barrier_all();                                                               \
    shmem_ibput##BITS(box, mine, 3, 2, 2, 2, next_pe());                               \
    shmem_ctx_ibput##BITS(ctx, box + 2 * (BYTES), mine + 4 * (BYTES), 3, 1, 1, 2, next_pe()); \
    shmem_barrier_all();                                                               \
    for (int i = 0; i < 6; ++i) CHECK(box[i * (BYTES)] == (i % 3 < 2 ? i / 3 * 2 + i % 3 : 4 + i / 3)); \
    shmem_ibget##BITS(local, mine, 2, 3, 2, 2, next_pe());                             \
    shmem_ctx_ibget##BITS(ctx, local + 4 * (BYTES), mine + 2 * (BYTES), 1, 3, 1, 2, next_pe()); \
    for (int i = 0; i < 6; ++i) CHECK(local[i * (BYTES)] == (i < 4 ? i / 2 * 3 + i % 2 : i * 3 - 10)); \
    shmem_barrier_all();                                                               \
  }
TOWPATH_SHMEM_SIZES(STRIDED_TEST, )
BYTES_TEST(mem, 1)

/* More than is fetched at once from another host, and steps that are asked for one by one. */
static void strided_gets_reach_far(void) {
  enum { kInts = 1 << 20 };
  int* far = shmem_malloc(kInts * sizeof(int));
  int* got = malloc(kInts / 2 * sizeof(int));
  CHECK(far != NULL && got != NULL);
  for (int i = 0; i < kInts; ++i) far[i] = i + shmem_my_pe();
  shmem_barrier_all();
  const int base = next_pe(), steps[] = {2, 3, 4097, 10007, kInts - 1};
  for (size_t s = 0; s < sizeof steps / sizeof *steps; ++s) {
    const int step = steps[s], count = (kInts - 1) / step + 1;
    int wrong = 0;
    shmem_int_iget(got, far, 1, step, (size_t)count, next_pe());
    for (int i = 0; i < count; ++i) wrong += got[i] != i * step + base;
    CHECK(wrong == 0);
    if (step == 2) continue; /* blocks of two, each behind a gap, to every third place */
    const int blocks = (kInts - 2) / step + 1 < kInts / 8 ? (kInts - 2) / step + 1 : kInts / 8;
    wrong = 0;
    shmem_int_ibget(got, far, 3, step, 2, (size_t)blocks, next_pe());
    for (int i = 0; i < blocks; ++i)
      wrong += got[3 * i] != i * step + base || got[3 * i + 1] != i * step + 1 + base;
    CHECK(wrong == 0);
  }
  /* One element has no step: not even one of 2^64 bytes. */
  shmem_int_iget(got, far + 9, 1, (ptrdiff_t)1 << 62, 1, next_pe());
  CHECK(got[0] == 9 + base);
  shmem_barrier_all();
  free(got);
  shmem_free(far);
}

static void nothing_is_legal(void) {
  int local = 7;
  shmem_int_put(NULL, &local, 0, next_pe());
  shmem_int_get(&local, NULL, 0, next_pe());
  shmem_int_iput(NULL, &local, 1, 1, 0, next_pe());
  shmem_int_ibput(NULL, &local, 1, 1, 0, 2, next_pe());
  shmem_int_ibget(&local, NULL, 1, 1, 2, 0, next_pe());
  CHECK(local == 7);
}

static void signals_without_data(void) {
  static uint64_t flag;
  shmem_ctx_t ctx = SHMEM_CTX_INVALID;
  const shmem_ctx_session_config_t config = {.total_ops = 4};
  CHECK(shmem_ctx_create(0, &ctx) == 0);
  shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
  shmem_ctx_session_start(SHMEM_CTX_INVALID, 0, NULL, 0);
  flag = 0;
  shmem_barrier_all();
  (shmem_signal_set)(&flag, 5, next_pe());
  (shmem_signal_add)(&flag, 2, next_pe());
  CHECK(shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 7) == 7);
  shmem_barrier_all();
  shmem_ctx_signal_set(ctx, &flag, 50, next_pe());
  shmem_ctx_signal_add(ctx, &flag, 3, next_pe());
  CHECK(shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 53) == 53);
  shmem_ctx_session_stop(ctx);
  shmem_ctx_destroy(ctx);
}

#define RMA_CASE(how, NAME, T) {"rma." #NAME, rma_##NAME}, {"rma.signal_" #NAME, signal_##NAME},
#define BYTES_CASE(how, BITS, BYTES) {"rma.bytes_" #BITS, bytes_##BITS}, {"rma.strided_" #BITS, strided_##BITS},
const struct test_case rma_cases[] = {TOWPATH_SHMEM_RMA_TYPES(RMA_CASE, ) TOWPATH_SHMEM_SIZES(BYTES_CASE, ){
                                          "rma.bytes_mem", bytes_mem},
                                      {"rma.strided_gets_reach_far", strided_gets_reach_far},
    {"rma.nothing_is_legal", nothing_is_legal},
                                      {"rma.signals_without_data", signals_without_data},
                                      {NULL, NULL}};
