/* What the functions of shmem.h come down to: bytes, words, and a few kinds of each, without types.
 * typed.c and old.c make the interface from these. Thread: any, as shmem.h says of each. */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): C, beside names of others. */

#include "shmem.h"

#ifdef __cplusplus
extern "C" {
#endif

enum door_type {
  door_int8,
  door_int16,
  door_int32,
  door_int64,
  door_uint8,
  door_uint16,
  door_uint32,
  door_uint64,
  door_float,
  door_double,
  door_longdouble,
  door_complexf,
  door_complexd,
  door_half, /* of NVSHMEM: 16 bits, as IEEE 754 has them */
  door_bfloat16
};

/* What a type is, whatever it is called: in C. */
#define DOOR_TYPE(T)                                            \
  _Generic((T){0}, char                                         \
           : (char)-1 < 0 ? door_int8 : door_uint8, signed char \
           : door_int8, unsigned char                           \
           : door_uint8, short                                  \
           : door_int16, unsigned short                         \
           : door_uint16, int                                   \
           : door_int32, unsigned int                           \
           : door_uint32, long                                  \
           : door_int64, unsigned long                          \
           : door_uint64, long long                             \
           : door_int64, unsigned long long                     \
           : door_uint64, float                                 \
           : door_float, double                                 \
           : door_double, long double                           \
           : door_longdouble, float _Complex                    \
           : door_complexf, double _Complex                     \
           : door_complexd)

/* Of so many elements. What wraps is more than any memory has: it is refused by that size. */
static inline size_t door_bytes(size_t nelems, size_t width) {
  size_t bytes = 0;
  return __builtin_mul_overflow(nelems, width, &bytes) ? SIZE_MAX : bytes;
}

/* Ends the PE with a reason where the other side cannot be reached. */
void door_put(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes, int pe);
void door_get(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes, int pe);

struct door_strides {
  ptrdiff_t dest, source; /* in elements */
  size_t width;           /* bytes of an element */
};
void door_iput(shmem_ctx_t ctx, void* dest, const void* source, struct door_strides strides,
               size_t nelems, int pe);
void door_iget(shmem_ctx_t ctx, void* dest, const void* source, struct door_strides strides,
               size_t nelems, int pe);

struct door_blocks {
  size_t nelems,
      count; /* elements of each, and how many of them: strides are from one to the next */
};
void door_ibput(shmem_ctx_t ctx, void* dest, const void* source, struct door_strides strides,
                struct door_blocks blocks, int pe);
void door_ibget(shmem_ctx_t ctx, void* dest, const void* source, struct door_strides strides,
                struct door_blocks blocks, int pe);

struct door_signal {
  uint64_t* word;
  uint64_t value;
  int op;
};
void door_put_signal(shmem_ctx_t ctx, void* dest, const void* source, size_t bytes,
                     struct door_signal signal, int pe);

enum door_atomic_op { /* the numbers of ChangeOp */
                      door_load,
                      door_swap,
                      door_add,
                      door_compare_swap,
                      door_and,
                      door_or,
                      door_xor
};
struct door_atomic {
  enum door_atomic_op op;
  size_t width; /* 4 or 8 bytes, of the values too */
  uint64_t value;
  uint64_t cond;
};
/* The value from before. */
uint64_t door_change(shmem_ctx_t ctx, const void* at, struct door_atomic what, int pe);
/* The same without asking for it. */
void door_post(shmem_ctx_t ctx, void* at, struct door_atomic what, int pe);

struct door_wanted {
  const void* ivars;
  size_t nelems;
  const int* status; /* may be null */
  int cmp;
  const void* values;
  int one_for_each; /* values has one for each element */
  enum door_type type;
};
void door_wait_all(struct door_wanted wanted);
size_t door_wait_any(struct door_wanted wanted);
size_t door_wait_some(struct door_wanted wanted, size_t* indices);
int door_test_all(struct door_wanted wanted);
size_t door_test_any(struct door_wanted wanted);
size_t door_test_some(struct door_wanted wanted, size_t* indices);

/* Collectives answer 0, or report why not and answer 1; door_must() then ends the PE, for functions
 * that answer nothing. */
void door_must(int answered);
int door_broadcast(shmem_team_t team, void* dest, const void* source, size_t bytes, int root);
/* The root keeps what it has in `dest`. */
int door_broadcast_to_others(shmem_team_t team, void* dest, const void* source, size_t bytes,
                             int root);
int door_collect(shmem_team_t team, void* dest, const void* source, size_t nelems, size_t width);
int door_alltoall(shmem_team_t team, void* dest, const void* source, size_t bytes);
int door_alltoalls(shmem_team_t team, void* dest, const void* source, struct door_strides strides,
                   size_t nelems);

enum door_reduce_op {
  door_sum,
  door_prod,
  door_min,
  door_max,
  door_bits_and,
  door_bits_or,
  door_bits_xor
};
struct door_reduction {
  enum door_reduce_op op;
  enum door_type type;
  size_t count;
};
int door_reduce(shmem_team_t team, void* dest, const void* source, struct door_reduction what);
/* `source` has `count` elements for each member. */
int door_reduce_scatter(shmem_team_t team, void* dest, const void* source,
                        struct door_reduction what);
/* Of two numbers of type door_half. */
uint16_t door_half_sum(uint16_t a, uint16_t b);
int door_scan(shmem_team_t team, void* dest, const void* source, struct door_reduction what,
              int is_inclusive);

int door_barrier(shmem_team_t team);

struct door_set {
  int start, log_stride, size;
};
/* The team of an active set, or none on a PE that is no member; collective over the set when it is
 * used for the first time. */
shmem_team_t door_team_of(struct door_set set, long* sync);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
