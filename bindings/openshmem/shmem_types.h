/* The types of the OpenSHMEM 1.6 C interface, in tables: X(how, NAME, TYPE) for each.
 *
 * All that is declared, defined and dispatched by type is made from these, here and in the library.
 * `how` is passed on, so that one X serves several families.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include <stddef.h>
#include <stdint.h>

/* _Complex is C's; C++ compilers have it as an extension. */
__extension__ typedef float _Complex towpath_shmem_complexf;
__extension__ typedef double _Complex towpath_shmem_complexd;
__extension__ typedef long long towpath_shmem_longlong;
__extension__ typedef unsigned long long towpath_shmem_ulonglong;

/* Distinct to the compiler: what can be distinguished by type. */
#define TOWPATH_SHMEM_SMALL_TYPES(X, how) \
  X(how, char, char)                      \
  X(how, schar, signed char)              \
  X(how, uchar, unsigned char)            \
  X(how, short, short)                    \
  X(how, ushort, unsigned short)
#define TOWPATH_SHMEM_WORD_TYPES(X, how)   \
  X(how, int, int)                         \
  X(how, long, long)                       \
  X(how, longlong, towpath_shmem_longlong) \
  X(how, uint, unsigned int)               \
  X(how, ulong, unsigned long)             \
  X(how, ulonglong, towpath_shmem_ulonglong)
#define TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how) \
  X(how, float, float)                          \
  X(how, double, double)
#define TOWPATH_SHMEM_REAL_TYPES(X, how)  \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how) \
  X(how, longdouble, long double)

/* Other names of those. */
#define TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how) \
  X(how, int8, int8_t)                          \
  X(how, int16, int16_t)                        \
  X(how, uint8, uint8_t)                        \
  X(how, uint16, uint16_t)
#define TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how) \
  X(how, int32, int32_t)                       \
  X(how, int64, int64_t)                       \
  X(how, uint32, uint32_t)                     \
  X(how, uint64, uint64_t)
#define TOWPATH_SHMEM_SIZE_TYPES(X, how) \
  X(how, size, size_t)                   \
  X(how, ptrdiff, ptrdiff_t)

/* Put, get, broadcast, collect, alltoall; minima and maxima too. */
#define TOWPATH_SHMEM_BASE_TYPES(X, how) \
  TOWPATH_SHMEM_SMALL_TYPES(X, how)      \
  TOWPATH_SHMEM_WORD_TYPES(X, how)       \
  TOWPATH_SHMEM_REAL_TYPES(X, how)
#define TOWPATH_SHMEM_RMA_TYPES(X, how)   \
  TOWPATH_SHMEM_BASE_TYPES(X, how)        \
  TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how) \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)  \
  TOWPATH_SHMEM_SIZE_TYPES(X, how)

/* Atomic operations: on integers; fetch, set and swap on floating-point numbers too; on bits. */
#define TOWPATH_SHMEM_AMO_TYPES(X, how)  \
  TOWPATH_SHMEM_WORD_TYPES(X, how)       \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how) \
  TOWPATH_SHMEM_SIZE_TYPES(X, how)
#define TOWPATH_SHMEM_EXTENDED_AMO_TYPES(X, how) \
  TOWPATH_SHMEM_AMO_TYPES(X, how)                \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how)
#define TOWPATH_SHMEM_UNSIGNED_WORD_TYPES(X, how) \
  X(how, uint, unsigned int)                      \
  X(how, ulong, unsigned long)                    \
  X(how, ulonglong, towpath_shmem_ulonglong)
#define TOWPATH_SHMEM_BITS_AMO_TYPES(X, how) \
  TOWPATH_SHMEM_UNSIGNED_WORD_TYPES(X, how)  \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)

/* Waits and tests. */
#define TOWPATH_SHMEM_WAIT_TYPES(X, how) \
  TOWPATH_SHMEM_AMO_TYPES(X, how)        \
  X(how, short, short)                   \
  X(how, ushort, unsigned short)

/* Reductions. */
#define TOWPATH_SHMEM_BITS_REDUCE_TYPES(X, how) \
  X(how, uchar, unsigned char)                  \
  X(how, ushort, unsigned short)                \
  TOWPATH_SHMEM_UNSIGNED_WORD_TYPES(X, how)     \
  TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how)       \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)        \
  X(how, size, size_t)
#define TOWPATH_SHMEM_COMPLEX_TYPES(X, how) \
  X(how, complexf, towpath_shmem_complexf)  \
  X(how, complexd, towpath_shmem_complexd)
#define TOWPATH_SHMEM_SUM_TYPES(X, how) \
  TOWPATH_SHMEM_RMA_TYPES(X, how)       \
  TOWPATH_SHMEM_COMPLEX_TYPES(X, how)

/* Interfaces that OpenSHMEM has deprecated. */
#define TOWPATH_SHMEM_OLD_WORD_TYPES(X, how) \
  X(how, int, int)                           \
  X(how, long, long)                         \
  X(how, longlong, towpath_shmem_longlong)
#define TOWPATH_SHMEM_OLD_AMO_TYPES(X, how) \
  TOWPATH_SHMEM_OLD_WORD_TYPES(X, how)      \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how)
#define TOWPATH_SHMEM_OLD_INTEGER_TYPES(X, how) \
  X(how, short, short)                          \
  TOWPATH_SHMEM_OLD_WORD_TYPES(X, how)
#define TOWPATH_SHMEM_OLD_ORDERED_TYPES(X, how) \
  TOWPATH_SHMEM_OLD_INTEGER_TYPES(X, how)       \
  TOWPATH_SHMEM_REAL_TYPES(X, how)
#define TOWPATH_SHMEM_OLD_SUM_TYPES(X, how) \
  TOWPATH_SHMEM_OLD_ORDERED_TYPES(X, how)   \
  TOWPATH_SHMEM_COMPLEX_TYPES(X, how)

/* Sizes of elements that have no type: X(how, bits, bytes). */
#define TOWPATH_SHMEM_SIZES(X, how) \
  X(how, 8, 1)                      \
  X(how, 16, 2)                     \
  X(how, 32, 4)                     \
  X(how, 64, 8)                     \
  X(how, 128, 16)

/* NOLINTEND(readability-identifier-naming) */
