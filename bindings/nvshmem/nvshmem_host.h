/* The host interface of NVSHMEM 3, as far as libnvshmem_host.so.3 of Towpath has it.
 *
 * For tests, and for programs without NVIDIA's header; names, values and structures are those that
 * programs and loaders use already. The library is used instead where there is no GPU: the memory
 * is the host's, and calls with a stream do at once what they say, whatever the stream. Thread:
 * any; collective calls are made one after the other, in the same order on all PEs.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include <stddef.h>
#include <stdint.h>

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Setting up ------------------------------------------------------------------------------------*/

typedef struct {
  int version;
  char internal[124];
} nvshmemx_uniqueid_t;
typedef struct {
  int version;
  const nvshmemx_uniqueid_t* id; /* borrowed until the initialisation is over */
  int myrank;
  int nranks;
} nvshmemx_uniqueid_args_t;
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
  int cuda_device_id;
  char reserved[92];
} nvshmemx_init_args_t;
typedef struct {
  int version;
  void* mpi_comm;
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;

#define NVSHMEMX_INIT_WITH_MPI_COMM 2U
#define NVSHMEMX_INIT_WITH_SHMEM 4U
#define NVSHMEMX_INIT_WITH_UNIQUEID 8U
#define NVSHMEM_STATUS_NOT_INITIALIZED 0
#define NVSHMEM_STATUS_IS_INITIALIZED 2
#define NVSHMEM_THREAD_SERIALIZED 2
/* What calls answer that answer an int. */
#define NVSHMEMX_SUCCESS 0
#define NVSHMEMX_ERROR_INVALID_VALUE 1
#define NVSHMEMX_ERROR_NOT_SUPPORTED 3
#define NVSHMEMX_ERROR_INTERNAL 7

/* Counted: the last finalize of as many ends it, and it can begin anew. Without a launcher and an
 * identifier the job is one PE. */
void nvshmem_init(void);
int nvshmem_init_thread(int requested, int* provided);
int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes);
int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes);
void nvshmem_finalize(void);
void nvshmemx_hostlib_finalize(void);
int nvshmemx_init_status(void);
void nvshmem_query_thread(int* provided);
void nvshmem_global_exit(int status);
int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* id);
int nvshmemx_set_attr_uniqueid_args(int rank, int nranks, const nvshmemx_uniqueid_t* id,
                                    nvshmemx_init_attr_t* attributes);

int nvshmem_my_pe(void);
int nvshmem_n_pes(void);
/* The version of NVSHMEM that this replaces. */
void nvshmem_info_get_version(int* major, int* minor);
void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch);
void nvshmem_info_get_name(char* name);
/* Reports that this is not NVIDIA's library. */
const char* nvshmemx_towpath_version(void);

/* Memory ----------------------------------------------------------------------------------------*/

void* nvshmem_malloc(size_t size);
void* nvshmem_calloc(size_t count, size_t size);
void* nvshmem_align(size_t alignment, size_t size);
void nvshmem_free(void* ptr);
void* nvshmem_ptr(const void* dest, int pe);
/* Any memory of the process may be a source: these have nothing to do. */
int nvshmemx_buffer_register(void* addr, size_t length);
int nvshmemx_buffer_unregister(void* addr);
void nvshmemx_buffer_unregister_all(void);

/* Teams -----------------------------------------------------------------------------------------*/

typedef int32_t nvshmem_team_t;
#define NVSHMEM_TEAM_INVALID (-1)
#define NVSHMEM_TEAM_WORLD 0
#define NVSHMEM_TEAM_SHARED 1
#define NVSHMEMX_TEAM_NODE 2 /* the same PEs as SHARED */
typedef struct {
  int version;
  int num_contexts;
  uint64_t uniqueid;
  char reserved[48];
} nvshmem_team_config_t;

int nvshmem_team_my_pe(nvshmem_team_t team);
int nvshmem_team_n_pes(nvshmem_team_t team);
void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config);
int nvshmem_team_translate_pe(nvshmem_team_t team, int pe, nvshmem_team_t other);
int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                               const nvshmem_team_config_t* config, long config_mask,
                               nvshmem_team_t* new_team);
int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange,
                          const nvshmem_team_config_t* xaxis_config, long xaxis_mask,
                          nvshmem_team_t* xaxis_team, const nvshmem_team_config_t* yaxis_config,
                          long yaxis_mask, nvshmem_team_t* yaxis_team);
void nvshmem_team_destroy(nvshmem_team_t team);

/* Order, signals --------------------------------------------------------------------------------*/

typedef void* nvshmem_stream_t; /* a cudaStream_t */

void nvshmem_quiet(void);
void nvshmem_fence(void);
void nvshmemx_quiet_on_stream(nvshmem_stream_t stream);
uint64_t nvshmem_signal_fetch(const uint64_t* sig_addr);
void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe);
void nvshmemx_signal_op_on_stream(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe,
                                  nvshmem_stream_t stream);
void nvshmemx_signal_wait_until_on_stream(uint64_t* sig_addr, int cmp, uint64_t cmp_value,
                                          nvshmem_stream_t stream);

/* Each of these is there twice: nvshmem_NAME(...), and nvshmemx_NAME_on_stream(..., stream).
 * ------*/

#define TOWPATH_NVSHMEM_BOTH(RESULT, NAME, ...) \
  RESULT nvshmem_##NAME(__VA_ARGS__);           \
  RESULT nvshmemx_##NAME##_on_stream(__VA_ARGS__, nvshmem_stream_t stream);

void nvshmem_barrier_all(void);
void nvshmem_sync_all(void);
void nvshmemx_barrier_all_on_stream(nvshmem_stream_t stream);
void nvshmemx_sync_all_on_stream(nvshmem_stream_t stream);
int nvshmem_barrier(nvshmem_team_t team);
int nvshmem_team_sync(nvshmem_team_t team);
int nvshmemx_barrier_on_stream(nvshmem_team_t team, nvshmem_stream_t stream);
int nvshmemx_team_sync_on_stream(nvshmem_team_t team, nvshmem_stream_t stream);

/* Types of NVSHMEM: without long double, with two of 16 bits. */
#define TOWPATH_NVSHMEM_TYPES(X, how)     \
  TOWPATH_SHMEM_SMALL_TYPES(X, how)       \
  TOWPATH_SHMEM_WORD_TYPES(X, how)        \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how) \
  TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how) \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)  \
  TOWPATH_SHMEM_SIZE_TYPES(X, how)        \
  TOWPATH_NVSHMEM_SHORT_TYPES(X, how)
#define TOWPATH_NVSHMEM_SHORT_TYPES(X, how) \
  X(how, half, uint16_t)                    \
  X(how, bfloat16, uint16_t)
/* Those that compilers sum and compare. */
#define TOWPATH_NVSHMEM_SUM_TYPES(X, how) \
  TOWPATH_SHMEM_SMALL_TYPES(X, how)       \
  TOWPATH_SHMEM_WORD_TYPES(X, how)        \
  TOWPATH_SHMEM_ATOMIC_REAL_TYPES(X, how) \
  TOWPATH_SHMEM_SMALL_FIXED_TYPES(X, how) \
  TOWPATH_SHMEM_WORD_FIXED_TYPES(X, how)  \
  TOWPATH_SHMEM_SIZE_TYPES(X, how)

/* X(PUT, GET, T, bytes of an element) for each family of puts and gets. */
#define TOWPATH_NVSHMEM_RMA(PUT, GET, T, WIDTH)                                                   \
  TOWPATH_NVSHMEM_BOTH(void, PUT, T* dest, const T* source, size_t nelems, int pe)                \
  TOWPATH_NVSHMEM_BOTH(void, GET, T* dest, const T* source, size_t nelems, int pe)                \
  TOWPATH_NVSHMEM_BOTH(void, PUT##_nbi, T* dest, const T* source, size_t nelems, int pe)          \
  TOWPATH_NVSHMEM_BOTH(void, GET##_nbi, T* dest, const T* source, size_t nelems, int pe)          \
  void nvshmemx_##PUT##_signal_on_stream(T* dest, const T* source, size_t nelems,                 \
                                         uint64_t* sig_addr, uint64_t signal, int sig_op, int pe, \
                                         nvshmem_stream_t stream);                                \
  void nvshmemx_##PUT##_signal_nbi_on_stream(T* dest, const T* source, size_t nelems,             \
                                             uint64_t* sig_addr, uint64_t signal, int sig_op,     \
                                             int pe, nvshmem_stream_t stream);
#define TOWPATH_NVSHMEM_STRIDED(PUT, GET, T, WIDTH)                                       \
  TOWPATH_NVSHMEM_BOTH(void, PUT, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, \
                       size_t nelems, int pe)                                             \
  TOWPATH_NVSHMEM_BOTH(void, GET, T* dest, const T* source, ptrdiff_t dst, ptrdiff_t sst, \
                       size_t nelems, int pe)
#define TOWPATH_NVSHMEM_TYPED(how, NAME, T)                      \
  TOWPATH_NVSHMEM_BOTH(void, NAME##_p, T* dest, T value, int pe) \
  TOWPATH_NVSHMEM_BOTH(T, NAME##_g, const T* source, int pe)     \
  TOWPATH_NVSHMEM_RMA(NAME##_put, NAME##_get, T, sizeof(T))      \
  TOWPATH_NVSHMEM_STRIDED(NAME##_iput, NAME##_iget, T, sizeof(T))
#define TOWPATH_NVSHMEM_SIZED(how, BITS, BYTES)          \
  TOWPATH_NVSHMEM_RMA(put##BITS, get##BITS, void, BYTES) \
  TOWPATH_NVSHMEM_STRIDED(iput##BITS, iget##BITS, void, BYTES)
TOWPATH_NVSHMEM_TYPES(TOWPATH_NVSHMEM_TYPED, )
TOWPATH_SHMEM_SIZES(TOWPATH_NVSHMEM_SIZED, )
TOWPATH_NVSHMEM_RMA(putmem, getmem, void, 1)

#define TOWPATH_NVSHMEM_MOVES(PREFIX, SUFFIX, T, WIDTH)                              \
  TOWPATH_NVSHMEM_BOTH(int, PREFIX##broadcast##SUFFIX, nvshmem_team_t team, T* dest, \
                       const T* source, size_t nelems, int PE_root)                  \
  TOWPATH_NVSHMEM_BOTH(int, PREFIX##fcollect##SUFFIX, nvshmem_team_t team, T* dest,  \
                       const T* source, size_t nelems)                               \
  TOWPATH_NVSHMEM_BOTH(int, PREFIX##alltoall##SUFFIX, nvshmem_team_t team, T* dest,  \
                       const T* source, size_t nelems)
#define TOWPATH_NVSHMEM_MOVE(how, NAME, T) TOWPATH_NVSHMEM_MOVES(NAME##_, , T, sizeof(T))
TOWPATH_NVSHMEM_TYPES(TOWPATH_NVSHMEM_MOVE, )
TOWPATH_NVSHMEM_MOVES(, mem, void, 1)

#define TOWPATH_NVSHMEM_REDUCE(OP, NAME, T)                                                      \
  TOWPATH_NVSHMEM_BOTH(int, NAME##_##OP##_reduce, nvshmem_team_t team, T* dest, const T* source, \
                       size_t nreduce)                                                           \
  /* The source has nreduce elements for each member. */                                         \
  TOWPATH_NVSHMEM_BOTH(int, NAME##_##OP##_reducescatter, nvshmem_team_t team, T* dest,           \
                       const T* source, size_t nreduce)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_NVSHMEM_REDUCE, and)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_NVSHMEM_REDUCE, or)
TOWPATH_SHMEM_BITS_REDUCE_TYPES(TOWPATH_NVSHMEM_REDUCE, xor)
#define TOWPATH_NVSHMEM_REDUCED_TYPES(X, how) \
  TOWPATH_NVSHMEM_SUM_TYPES(X, how)           \
  TOWPATH_NVSHMEM_SHORT_TYPES(X, how)
TOWPATH_NVSHMEM_REDUCED_TYPES(TOWPATH_NVSHMEM_REDUCE, max)
TOWPATH_NVSHMEM_REDUCED_TYPES(TOWPATH_NVSHMEM_REDUCE, min)
TOWPATH_NVSHMEM_REDUCED_TYPES(TOWPATH_NVSHMEM_REDUCE, sum)
TOWPATH_NVSHMEM_REDUCED_TYPES(TOWPATH_NVSHMEM_REDUCE, prod)

/* Atomic operations and waits -------------------------------------------------------------------*/

#define TOWPATH_NVSHMEM_AMO(how, NAME, T)                     \
  T nvshmem_##NAME##_atomic_fetch(const T* source, int pe);   \
  void nvshmem_##NAME##_atomic_set(T* dest, T value, int pe); \
  T nvshmem_##NAME##_atomic_swap(T* dest, T value, int pe);
#define TOWPATH_NVSHMEM_WORD_AMO(how, NAME, T)                              \
  T nvshmem_##NAME##_atomic_compare_swap(T* dest, T cond, T value, int pe); \
  void nvshmem_##NAME##_atomic_inc(T* dest, int pe);                        \
  void nvshmem_##NAME##_atomic_add(T* dest, T value, int pe);               \
  T nvshmem_##NAME##_atomic_fetch_inc(T* dest, int pe);                     \
  T nvshmem_##NAME##_atomic_fetch_add(T* dest, T value, int pe);
#define TOWPATH_NVSHMEM_BITS_AMO(OP, NAME, T)                  \
  void nvshmem_##NAME##_atomic_##OP(T* dest, T value, int pe); \
  T nvshmem_##NAME##_atomic_fetch_##OP(T* dest, T value, int pe);
#define TOWPATH_NVSHMEM_FLOAT_AMO(how, NAME, T)                \
  void nvshmemx_##NAME##_atomic_add(T* dest, T value, int pe); \
  T nvshmemx_##NAME##_atomic_fetch_add(T* dest, T value, int pe);
TOWPATH_SHMEM_EXTENDED_AMO_TYPES(TOWPATH_NVSHMEM_AMO, )
TOWPATH_SHMEM_AMO_TYPES(TOWPATH_NVSHMEM_WORD_AMO, )
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_NVSHMEM_BITS_AMO, and)
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_NVSHMEM_BITS_AMO, or)
TOWPATH_SHMEM_BITS_AMO_TYPES(TOWPATH_NVSHMEM_BITS_AMO, xor)
TOWPATH_SHMEM_ATOMIC_REAL_TYPES(TOWPATH_NVSHMEM_FLOAT_AMO, )
TOWPATH_NVSHMEM_FLOAT_AMO(, half, uint16_t)

#define TOWPATH_NVSHMEM_WAIT(how, NAME, T)                                                        \
  void nvshmemx_##NAME##_wait_until_on_stream(T* ivar, int cmp, T cmp_value,                      \
                                              nvshmem_stream_t stream);                           \
  void nvshmemx_##NAME##_wait_until_all_on_stream(T* ivars, size_t nelems, const int* status,     \
                                                  int cmp, T cmp_value, nvshmem_stream_t stream); \
  void nvshmemx_##NAME##_wait_until_all_vector_on_stream(T* ivars, size_t nelems,                 \
                                                         const int* status, int cmp,              \
                                                         T* cmp_values, nvshmem_stream_t stream);
TOWPATH_SHMEM_WAIT_TYPES(TOWPATH_NVSHMEM_WAIT, )

/* Those without a GPU ---------------------------------------------------------------------------*/

void nvshmemx_flush(void);
void nvshmemx_flush_on_stream(nvshmem_stream_t stream);
void nvshmemx_signal_counted_reset(uint64_t* sig_addr);
/* Hints: regions may be begun and ended, and change nothing. */
typedef struct {
  uint32_t hints;
  char reserved[60];
} nvshmemx_region_attrs_t;
int nvshmemx_region_start(uint64_t* handle, const nvshmemx_region_attrs_t* attributes);
int nvshmemx_region_stop(uint64_t handle);
int nvshmemx_region_is_active(uint32_t hints, int* active);

/* A team of PEs that find each other by an identifier that one of them made: config->uniqueid, with
 * the mask's bit 2. Collective over the new team alone, whose members all pass the same npes: where
 * two counts meet, those that have come get an error, and one that comes later waits for the rest.
 * A PE's seventeenth identifier is its first again: sixteen teams may be on their way at once. */
int nvshmemx_team_get_uniqueid(uint64_t* uniqueid);
int nvshmemx_team_init(nvshmem_team_t* team, nvshmem_team_config_t* config, long config_mask,
                       int npes, int pe_idx_in_team);

/* Null: there is no multicast. */
void* nvshmemx_mc_ptr(nvshmem_team_t team, const void* ptr);

/* Each answers 3, not supported (null where it answers an address), and reports why. */
typedef struct {
  unsigned int x, y, z;
} nvshmem_dim3_t; /* CUDA's dim3 */
void* nvshmemx_buffer_register_symmetric(void* addr, size_t length, int flags);
void* nvshmemx_buffer_register_symmetric_at_preferred_address(void* addr, size_t length,
                                                              void* preferred, int flags);
int nvshmemx_buffer_unregister_symmetric(void* addr, size_t length);
int nvshmemx_collective_launch(const void* func, nvshmem_dim3_t grid, nvshmem_dim3_t block,
                               void** args, size_t shared, nvshmem_stream_t stream);
int nvshmemx_collective_launch_attr(const void* attributes, const void* func, void** args);
int nvshmemx_collective_launch_query_gridsize(const void* func, nvshmem_dim3_t block, void** args,
                                              size_t shared, int* gridsize);
int nvshmemx_cumodule_init(void* module);
int nvshmemx_cumodule_finalize(void* module);
int nvshmemx_culibrary_init(void* library);
int nvshmemx_culibrary_finalize(void* library);
int nvshmemx_qp_create(int num_qps, int** qps);
/* The communicator is kept; nvshmemx_init_attr() then answers that it cannot start by MPI. */
int nvshmemx_set_attr_mpi_comm_args(void* comm, nvshmemx_init_attr_t* attributes);

/* What NVIDIA's header, and its library for devices, call ---------------------------------------*/

typedef struct {
  int major, minor, patch;
} nvshmemi_version_t;
int nvshmemid_hostlib_init_attr(int requested, int* provided, unsigned int flags,
                                nvshmemx_init_attr_t* attributes, nvshmemi_version_t version,
                                int (*device_state)(void**, void**));
void nvshmemid_hostlib_finalize(void* device, void* transport);
int nvshmemid_init_status(void);
void nvshmemi_finalize(void);
void nvshmem_debug_log(int level, unsigned long flags, const char* where, int line,
                       const char* format, ...);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
