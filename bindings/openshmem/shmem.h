/* OpenSHMEM 1.6 in C, over Towpath's symmetric memory.
 *
 *   $ towpath-shmcc hello.c -o hello && towpath run -n 4 -- ./hello
 *
 * Global and static variables of the program are symmetric, as is what shmem_malloc() gives: not
 * those of other shared libraries. Functions by type are in shmem_typed.h, what OpenSHMEM has
 * deprecated is in shmem_old.h; shmem_generic.h chooses by the types of arguments in C11.
 * What cannot go on (an address that is not symmetric, a PE that died) is said on standard error,
 * and ends the PE with status 1. Functions that answer an int answer 0 when they did what was
 * asked. Thread: as shmem_init_thread() provides.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include <stddef.h>
#include <stdint.h>

#include "shmem_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 6
#define SHMEM_MAX_NAME_LEN 256
#define SHMEM_VENDOR_STRING "Towpath"

/* What waits and tests compare by. */
#define SHMEM_CMP_EQ 0
#define SHMEM_CMP_NE 1
#define SHMEM_CMP_GT 2
#define SHMEM_CMP_LE 3
#define SHMEM_CMP_LT 4
#define SHMEM_CMP_GE 5

#define SHMEM_SIGNAL_SET 9
#define SHMEM_SIGNAL_ADD 10

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/* Setting up ------------------------------------------------------------------------------------*/

/* Counted: the last finalize of as many ends it, for good. */
void shmem_init(void);
/* All levels are provided; collective calls of several threads are made on different teams. */
int shmem_init_thread(int requested, int* provided);
void shmem_query_thread(int* provided);
/* Before the beginning and after the end too: 1 or 0. */
void shmem_query_initialized(int* initialized);
void shmem_query_finalized(int* finalized);
/* Collective. A program that ends with status 0 without it does it then. */
void shmem_finalize(void);
/* Ends all PEs, where `towpath run` started them; otherwise this one, and the waits of others. */
void shmem_global_exit(int status) __attribute__((noreturn));

int shmem_my_pe(void);
int shmem_n_pes(void);
void shmem_info_get_version(int* major, int* minor);
void shmem_info_get_name(char* name);
int shmem_pe_accessible(int pe);
int shmem_addr_accessible(const void* addr, int pe);
/* Where the object of `pe` lies in this process; null when `dest` is not symmetric. */
void* shmem_ptr(const void* dest, int pe);
/* For profilers; does nothing. */
void shmem_pcontrol(int level, ...);

/* Memory: collective ----------------------------------------------------------------------------*/

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/* Null, with a reason on standard error, when the heap has no room or the PEs differ; null for 0
 * bytes, without waiting for others. An alignment is a power of two. */
void* shmem_malloc(size_t size);
void* shmem_calloc(size_t count, size_t size);
void* shmem_align(size_t alignment, size_t size);
void* shmem_realloc(void* ptr, size_t size);
void* shmem_malloc_with_hints(size_t size, long hints);
void shmem_free(void* ptr);

/* Teams -----------------------------------------------------------------------------------------*/

typedef struct towpath_shmem_team* shmem_team_t;
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
/* Those whose memory can be reached by loads and stores. */
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)

typedef struct {
  int num_contexts; /* kept, and reported; contexts are not limited */
} shmem_team_config_t;
#define SHMEM_TEAM_NUM_CONTEXTS 1L

int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t* config);
int shmem_team_translate_pe(shmem_team_t team, int pe, shmem_team_t other);
int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size,
                             const shmem_team_config_t* config, long config_mask,
                             shmem_team_t* new_team);
int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t* xaxis_config,
                        long xaxis_mask, shmem_team_t* xaxis_team,
                        const shmem_team_config_t* yaxis_config, long yaxis_mask,
                        shmem_team_t* yaxis_team);
void shmem_team_destroy(shmem_team_t team);
int shmem_team_sync(shmem_team_t team);
void* shmem_team_ptr(shmem_team_t team, const void* dest, int pe);

/* Contexts: an order of their own. A put that returns has left its source; to a PE of this host it
 * is in place, to others after quiet, which is that of all contexts. So they differ only by the
 * team that their PEs are counted in. -----------------------------------------------------------*/

typedef struct towpath_shmem_ctx* shmem_ctx_t;
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

int shmem_ctx_create(long options, shmem_ctx_t* ctx);
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t* ctx);
void shmem_ctx_destroy(shmem_ctx_t ctx);
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team);

/* Sessions: hints about what comes next, which change nothing. */
#define SHMEM_CTX_SESSION_BATCH 1L
#define SHMEM_CTX_SESSION_TOTAL_OPS 1L
typedef struct {
  size_t total_ops;
} shmem_ctx_session_config_t;
void shmem_ctx_session_start(shmem_ctx_t ctx, long options,
                             const shmem_ctx_session_config_t* config, long config_mask);
void shmem_ctx_session_stop(shmem_ctx_t ctx);

/* Order -----------------------------------------------------------------------------------------*/

void shmem_fence(void);
void shmem_quiet(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_ctx_quiet(shmem_ctx_t ctx);
/* What was done to these PEs, and to others as well: as quiet; at once when they are none. */
void shmem_pe_quiet(const int* target_pes, size_t npes);
void shmem_ctx_pe_quiet(shmem_ctx_t ctx, const int* target_pes, size_t npes);
void shmem_barrier_all(void);
void shmem_sync_all(void);

/* Signals and locks -----------------------------------------------------------------------------*/

uint64_t shmem_signal_fetch(const uint64_t* sig_addr);
void shmem_signal_add(uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_signal_set(uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe);
void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t* sig_addr, uint64_t signal, int pe);
/* Answers the value that was as wanted. */
uint64_t shmem_signal_wait_until(uint64_t* sig_addr, int cmp, uint64_t cmp_value);

/* A lock is a symmetric long that was 0. PEs get it in the order in which they ask. It is the PE's,
 * whichever thread asked: setting it while the PE has it, or clearing it while it has not, ends the
 * PE. */
void shmem_set_lock(long* lock);
void shmem_clear_lock(long* lock);
/* 0: it is ours now. When the holder has died, this ends as shmem_set_lock() does. */
int shmem_test_lock(long* lock);

#ifdef __cplusplus
}
#endif

#include "shmem_generic.h" /* with all that it chooses from */

/* NOLINTEND(readability-identifier-naming) */
