/* Atomic operations, of every type, with the default context and another. */
#include "check.h"

/* Each PE works on a word of the next one that nobody else touches, except where said. */
#define EXTENDED_TEST(how, NAME, T)                                      \
  static void extended_##NAME(void) {                                    \
    static T word;                                                       \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                           \
    const int pe = next_pe();                                            \
    T fetched = 0;                                                       \
    shmem_barrier_all();                                                 \
    shmem_##NAME##_atomic_set(&word, 5, pe);                             \
    CHECK(shmem_##NAME##_atomic_fetch(&word, pe) == 5);                  \
    CHECK(shmem_##NAME##_atomic_swap(&word, 6, pe) == 5);                \
    shmem_##NAME##_atomic_fetch_nbi(&fetched, &word, pe);                \
    shmem_quiet();                                                       \
    CHECK(fetched == 6);                                                 \
    shmem_##NAME##_atomic_swap_nbi(&fetched, &word, 7, pe);              \
    shmem_quiet();                                                       \
    CHECK(fetched == 6);                                                 \
    CHECK(shmem_ctx_##NAME##_atomic_fetch(ctx, &word, pe) == 7);         \
    shmem_ctx_##NAME##_atomic_set(ctx, &word, 8, pe);                    \
    CHECK(shmem_ctx_##NAME##_atomic_swap(ctx, &word, 9, pe) == 8);       \
    shmem_ctx_##NAME##_atomic_swap_nbi(ctx, &fetched, &word, 10, pe);    \
    CHECK(fetched == 9);                                                 \
    shmem_ctx_##NAME##_atomic_fetch_nbi(ctx, &fetched, &word, pe);       \
    CHECK(fetched == 10);                                                \
    shmem_barrier_all();                                                 \
    CHECK(word == 10);                                                   \
  }
TOWPATH_SHMEM_EXTENDED_AMO_TYPES(EXTENDED_TEST, )

/* All PEs add to one word of PE 0: nothing is lost. */
#define WORD_TEST(how, NAME, T)                                                   \
  static void words_##NAME(void) {                                                \
    static T word, sum;                                                           \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;                                    \
    const int pe = next_pe();                                                     \
    T fetched = 0;                                                                \
    word = 1;                                                                     \
    sum = 0;                                                                      \
    shmem_barrier_all();                                                          \
    CHECK(shmem_##NAME##_atomic_fetch_inc(&word, pe) == 1);                       \
    CHECK(shmem_##NAME##_atomic_fetch_add(&word, 3, pe) == 2);                    \
    CHECK(shmem_##NAME##_atomic_compare_swap(&word, 4, 9, pe) == 5);              \
    CHECK(shmem_##NAME##_atomic_compare_swap(&word, 5, 9, pe) == 5);              \
    shmem_##NAME##_atomic_compare_swap_nbi(&fetched, &word, 9, 10, pe);           \
    CHECK(fetched == 9);                                                          \
    shmem_##NAME##_atomic_fetch_inc_nbi(&fetched, &word, pe);                     \
    CHECK(fetched == 10);                                                         \
    shmem_##NAME##_atomic_fetch_add_nbi(&fetched, &word, 4, pe);                  \
    CHECK(fetched == 11);                                                         \
    CHECK(shmem_ctx_##NAME##_atomic_fetch_inc(ctx, &word, pe) == 15);             \
    CHECK(shmem_ctx_##NAME##_atomic_fetch_add(ctx, &word, 4, pe) == 16);          \
    CHECK(shmem_ctx_##NAME##_atomic_compare_swap(ctx, &word, 20, 1, pe) == 20);   \
    shmem_ctx_##NAME##_atomic_compare_swap_nbi(ctx, &fetched, &word, 1, 2, pe);   \
    CHECK(fetched == 1);                                                          \
    shmem_ctx_##NAME##_atomic_fetch_inc_nbi(ctx, &fetched, &word, pe);            \
    CHECK(fetched == 2);                                                          \
    shmem_ctx_##NAME##_atomic_fetch_add_nbi(ctx, &fetched, &word, 1, pe);         \
    CHECK(fetched == 3);                                                          \
    for (int i = 0; i < 50; ++i) {                                                \
      shmem_##NAME##_atomic_inc(&sum, 0);                                         \
      shmem_##NAME##_atomic_add(&sum, 2, 0);                                      \
      shmem_ctx_##NAME##_atomic_inc(ctx, &sum, 0);                                \
      shmem_ctx_##NAME##_atomic_add(ctx, &sum, 2, 0);                             \
    }                                                                             \
    shmem_barrier_all();                                                          \
    if (shmem_my_pe() == 0) CHECK(sum == (T)(300 * shmem_n_pes()));               \
    shmem_barrier_all();                                                          \
  }
TOWPATH_SHMEM_AMO_TYPES(WORD_TEST, )

#define BITS_OF_OP(OP, NAME, T, AFTER)                                                        \
  do {                                                                                        \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    CHECK(shmem_##NAME##_atomic_fetch_##OP(&word, 0x3C, pe) == 0xF0);                         \
    CHECK(shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));                                 \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    CHECK(shmem_ctx_##NAME##_atomic_fetch_##OP(ctx, &word, 0x3C, pe) == 0xF0);                \
    CHECK(shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));                                 \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    shmem_##NAME##_atomic_fetch_##OP##_nbi(&fetched, &word, 0x3C, pe);                        \
    CHECK(fetched == 0xF0 && shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));              \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    shmem_ctx_##NAME##_atomic_fetch_##OP##_nbi(ctx, &fetched, &word, 0x3C, pe);               \
    CHECK(fetched == 0xF0 && shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));              \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    shmem_##NAME##_atomic_##OP(&word, 0x3C, pe);                                              \
    CHECK(shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));                                 \
    shmem_##NAME##_atomic_set(&word, 0xF0, pe);                                               \
    shmem_ctx_##NAME##_atomic_##OP(ctx, &word, 0x3C, pe);                                     \
    CHECK(shmem_##NAME##_atomic_fetch(&word, pe) == (AFTER));                                 \
  } while (0)
#define BITS_TEST(how, NAME, T)                  \
  static void bits_##NAME(void) {                \
    static T word;                               \
    const shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;   \
    const int pe = next_pe();                    \
    T fetched = 0;                               \
    shmem_barrier_all();                         \
    BITS_OF_OP(and, NAME, T, 0x30);              \
    BITS_OF_OP(or, NAME, T, 0xFC);               \
    BITS_OF_OP(xor, NAME, T, 0xCC);              \
    shmem_barrier_all();                         \
  }
TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_TEST, )

#define EXTENDED_CASE(how, NAME, T) {"atomic.extended_" #NAME, extended_##NAME},
#define WORD_CASE(how, NAME, T) {"atomic.words_" #NAME, words_##NAME},
#define BITS_CASE(how, NAME, T) {"atomic.bits_" #NAME, bits_##NAME},
const struct test_case atomic_cases[] = {TOWPATH_SHMEM_EXTENDED_AMO_TYPES(EXTENDED_CASE, )
                                             TOWPATH_SHMEM_AMO_TYPES(WORD_CASE, )
                                                 TOWPATH_SHMEM_BITS_AMO_TYPES(BITS_CASE, ){NULL, NULL}};
