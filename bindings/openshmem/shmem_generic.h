/* Functions without a type in their name: the types of the arguments choose, in C11.
 *
 *   shmem_put(values, mine, 4, pe);        is shmem_int_put() for an int*
 *   shmem_put(ctx, values, mine, 4, pe);   is shmem_ctx_int_put()
 *
 * What no function fits is an error of the compiler ("called object is not a function").
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

/* Before the macros below take over some of their names. */
#include "shmem_old.h"
#include "shmem_typed.h"

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L

#define TOWPATH_SHMEM_FIRST(first, ...) (first)
#define TOWPATH_SHMEM_SECOND(first, second, ...) (second)
/* Qualified or not: what may not be qualified is reported by the function that was chosen. */
#define TOWPATH_SHMEM_PICK(OP, NAME, T) \
  T* : shmem_##NAME##_##OP, const T* : shmem_##NAME##_##OP, volatile T* : shmem_##NAME##_##OP,
#define TOWPATH_SHMEM_PICK_CTX(OP, NAME, T) \
  T* : shmem_ctx_##NAME##_##OP,             \
       const T* : shmem_ctx_##NAME##_##OP,  \
                  volatile T* : shmem_ctx_##NAME##_##OP,

/* By the first argument, or the one behind a context. */
#define TOWPATH_SHMEM_CALL(TYPES, OP, ...)                                               \
  _Generic(TOWPATH_SHMEM_FIRST(__VA_ARGS__, ), TYPES(TOWPATH_SHMEM_PICK, OP) shmem_ctx_t \
           : _Generic(TOWPATH_SHMEM_SECOND(__VA_ARGS__, ),                               \
                      TYPES(TOWPATH_SHMEM_PICK_CTX, OP) default : 0))(__VA_ARGS__)
/* By the first argument. */
#define TOWPATH_SHMEM_CALL_1(TYPES, OP, ...)   \
  _Generic(TOWPATH_SHMEM_FIRST(__VA_ARGS__, ), \
           TYPES(TOWPATH_SHMEM_PICK, OP) default : 0)(__VA_ARGS__)
/* By the one behind a team. */
#define TOWPATH_SHMEM_CALL_2(TYPES, OP, ...)    \
  _Generic(TOWPATH_SHMEM_SECOND(__VA_ARGS__, ), \
           TYPES(TOWPATH_SHMEM_PICK, OP) default : 0)(__VA_ARGS__)

#define TOWPATH_SHMEM_WORD_AND_REAL(X, OP) \
  TOWPATH_SHMEM_WORD_TYPES(X, OP) TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, OP)
/* int and long have these under fixed names only. */
#define TOWPATH_SHMEM_BITS_WORDS(X, OP) \
  TOWPATH_SHMEM_UNSIGNED_WORD_TYPES(X, OP) X(OP, int32, int32_t) X(OP, int64, int64_t)
#define TOWPATH_SHMEM_WAIT_WORDS(X, OP) \
  TOWPATH_SHMEM_WORD_TYPES(X, OP) X(OP, short, short) X(OP, ushort, unsigned short)
#define TOWPATH_SHMEM_BITS_REDUCIBLE(X, OP) \
  TOWPATH_SHMEM_BITS_WORDS(X, OP)           \
  X(OP, int8, int8_t)                       \
  X(OP, int16, int16_t) X(OP, uchar, unsigned char) X(OP, ushort, unsigned short)
#define TOWPATH_SHMEM_SUMMABLE(X, OP) \
  TOWPATH_SHMEM_BASE_TYPES(X, OP) TOWPATH_SHMEM_COMPLEX_TYPES(X, OP)

#define TOWPATH_SHMEM_RMA_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL(TOWPATH_SHMEM_BASE_TYPES, OP, __VA_ARGS__)
#define shmem_p(...) TOWPATH_SHMEM_RMA_CALL(p, __VA_ARGS__)
#define shmem_g(...) TOWPATH_SHMEM_RMA_CALL(g, __VA_ARGS__)
#define shmem_put(...) TOWPATH_SHMEM_RMA_CALL(put, __VA_ARGS__)
#define shmem_get(...) TOWPATH_SHMEM_RMA_CALL(get, __VA_ARGS__)
#define shmem_put_nbi(...) TOWPATH_SHMEM_RMA_CALL(put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) TOWPATH_SHMEM_RMA_CALL(get_nbi, __VA_ARGS__)
#define shmem_iput(...) TOWPATH_SHMEM_RMA_CALL(iput, __VA_ARGS__)
#define shmem_iget(...) TOWPATH_SHMEM_RMA_CALL(iget, __VA_ARGS__)
#define shmem_ibput(...) TOWPATH_SHMEM_RMA_CALL(ibput, __VA_ARGS__)
#define shmem_ibget(...) TOWPATH_SHMEM_RMA_CALL(ibget, __VA_ARGS__)
#define shmem_put_signal(...) TOWPATH_SHMEM_RMA_CALL(put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) TOWPATH_SHMEM_RMA_CALL(put_signal_nbi, __VA_ARGS__)

#define TOWPATH_SHMEM_ANY_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL(TOWPATH_SHMEM_WORD_AND_REAL, OP, __VA_ARGS__)
#define shmem_atomic_fetch(...) TOWPATH_SHMEM_ANY_CALL(atomic_fetch, __VA_ARGS__)
#define shmem_atomic_set(...) TOWPATH_SHMEM_ANY_CALL(atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) TOWPATH_SHMEM_ANY_CALL(atomic_swap, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) TOWPATH_SHMEM_ANY_CALL(atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) TOWPATH_SHMEM_ANY_CALL(atomic_swap_nbi, __VA_ARGS__)

#define TOWPATH_SHMEM_WORD_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL(TOWPATH_SHMEM_WORD_TYPES, OP, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) TOWPATH_SHMEM_WORD_CALL(atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_inc(...) TOWPATH_SHMEM_WORD_CALL(atomic_inc, __VA_ARGS__)
#define shmem_atomic_add(...) TOWPATH_SHMEM_WORD_CALL(atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) TOWPATH_SHMEM_WORD_CALL(atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) TOWPATH_SHMEM_WORD_CALL(atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) \
  TOWPATH_SHMEM_WORD_CALL(atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) TOWPATH_SHMEM_WORD_CALL(atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) TOWPATH_SHMEM_WORD_CALL(atomic_fetch_add_nbi, __VA_ARGS__)

#define TOWPATH_SHMEM_BITS_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL(TOWPATH_SHMEM_BITS_WORDS, OP, __VA_ARGS__)
#define shmem_atomic_and(...) TOWPATH_SHMEM_BITS_CALL(atomic_and, __VA_ARGS__)
#define shmem_atomic_or(...) TOWPATH_SHMEM_BITS_CALL(atomic_or, __VA_ARGS__)
#define shmem_atomic_xor(...) TOWPATH_SHMEM_BITS_CALL(atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) TOWPATH_SHMEM_BITS_CALL(atomic_fetch_xor_nbi, __VA_ARGS__)

#define TOWPATH_SHMEM_WAIT_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_WAIT_WORDS, OP, __VA_ARGS__)
#define shmem_wait_until(...) TOWPATH_SHMEM_WAIT_CALL(wait_until, __VA_ARGS__)
#define shmem_wait_until_all(...) TOWPATH_SHMEM_WAIT_CALL(wait_until_all, __VA_ARGS__)
#define shmem_wait_until_any(...) TOWPATH_SHMEM_WAIT_CALL(wait_until_any, __VA_ARGS__)
#define shmem_wait_until_some(...) TOWPATH_SHMEM_WAIT_CALL(wait_until_some, __VA_ARGS__)
#define shmem_wait_until_all_vector(...) TOWPATH_SHMEM_WAIT_CALL(wait_until_all_vector, __VA_ARGS__)
#define shmem_wait_until_any_vector(...) TOWPATH_SHMEM_WAIT_CALL(wait_until_any_vector, __VA_ARGS__)
#define shmem_wait_until_some_vector(...) \
  TOWPATH_SHMEM_WAIT_CALL(wait_until_some_vector, __VA_ARGS__)
#define shmem_test(...) TOWPATH_SHMEM_WAIT_CALL(test, __VA_ARGS__)
#define shmem_test_all(...) TOWPATH_SHMEM_WAIT_CALL(test_all, __VA_ARGS__)
#define shmem_test_any(...) TOWPATH_SHMEM_WAIT_CALL(test_any, __VA_ARGS__)
#define shmem_test_some(...) TOWPATH_SHMEM_WAIT_CALL(test_some, __VA_ARGS__)
#define shmem_test_all_vector(...) TOWPATH_SHMEM_WAIT_CALL(test_all_vector, __VA_ARGS__)
#define shmem_test_any_vector(...) TOWPATH_SHMEM_WAIT_CALL(test_any_vector, __VA_ARGS__)
#define shmem_test_some_vector(...) TOWPATH_SHMEM_WAIT_CALL(test_some_vector, __VA_ARGS__)

#define TOWPATH_SHMEM_TEAM_CALL(OP, ...) \
  TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_BASE_TYPES, OP, __VA_ARGS__)
#define shmem_broadcast(...) TOWPATH_SHMEM_TEAM_CALL(broadcast, __VA_ARGS__)
#define shmem_collect(...) TOWPATH_SHMEM_TEAM_CALL(collect, __VA_ARGS__)
#define shmem_fcollect(...) TOWPATH_SHMEM_TEAM_CALL(fcollect, __VA_ARGS__)
#define shmem_alltoall(...) TOWPATH_SHMEM_TEAM_CALL(alltoall, __VA_ARGS__)
#define shmem_alltoalls(...) TOWPATH_SHMEM_TEAM_CALL(alltoalls, __VA_ARGS__)
#define shmem_max_reduce(...) TOWPATH_SHMEM_TEAM_CALL(max_reduce, __VA_ARGS__)
#define shmem_min_reduce(...) TOWPATH_SHMEM_TEAM_CALL(min_reduce, __VA_ARGS__)
#define shmem_sum_reduce(...) TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_SUMMABLE, sum_reduce, __VA_ARGS__)
#define shmem_prod_reduce(...) \
  TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_SUMMABLE, prod_reduce, __VA_ARGS__)
#define shmem_sum_inscan(...) TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_SUMMABLE, sum_inscan, __VA_ARGS__)
#define shmem_sum_exscan(...) TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_SUMMABLE, sum_exscan, __VA_ARGS__)
#define shmem_and_reduce(...) \
  TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_BITS_REDUCIBLE, and_reduce, __VA_ARGS__)
#define shmem_or_reduce(...) \
  TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_BITS_REDUCIBLE, or_reduce, __VA_ARGS__)
#define shmem_xor_reduce(...) \
  TOWPATH_SHMEM_CALL_2(TOWPATH_SHMEM_BITS_REDUCIBLE, xor_reduce, __VA_ARGS__)

/* With a context, or without. */
#define TOWPATH_SHMEM_SIGNAL(OP, ...)                      \
  _Generic(TOWPATH_SHMEM_FIRST(__VA_ARGS__, ), shmem_ctx_t \
           : shmem_ctx_signal_##OP, default                \
           : shmem_signal_##OP)(__VA_ARGS__)
#define shmem_signal_add(...) TOWPATH_SHMEM_SIGNAL(add, __VA_ARGS__)
#define shmem_signal_set(...) TOWPATH_SHMEM_SIGNAL(set, __VA_ARGS__)

/* A team, or an active set. */
#define shmem_sync(...)                                     \
  _Generic(TOWPATH_SHMEM_FIRST(__VA_ARGS__, ), shmem_team_t \
           : shmem_team_sync, default                       \
           : shmem_sync)(__VA_ARGS__)

/* Deprecated. */
#define shmem_wait(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_INTEGER_TYPES, wait, __VA_ARGS__)
#define shmem_fetch(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_AMO_TYPES, fetch, __VA_ARGS__)
#define shmem_set(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_AMO_TYPES, set, __VA_ARGS__)
#define shmem_swap(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_AMO_TYPES, swap, __VA_ARGS__)
#define shmem_cswap(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_WORD_TYPES, cswap, __VA_ARGS__)
#define shmem_finc(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_WORD_TYPES, finc, __VA_ARGS__)
#define shmem_fadd(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_WORD_TYPES, fadd, __VA_ARGS__)
#define shmem_inc(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_WORD_TYPES, inc, __VA_ARGS__)
#define shmem_add(...) TOWPATH_SHMEM_CALL_1(TOWPATH_SHMEM_OLD_WORD_TYPES, add, __VA_ARGS__)

#endif

/* NOLINTEND(readability-identifier-naming) */
