/* Towpath in C: what a connector of an engine, and a program that keeps its state in files, need.
 *
 * What holds for every function
 *
 *   Result      TOWPATH_OK, or a code that says why not; then `error`, where it is not null,
 *               has the code and the sentence, with cause and hint. Outputs are written only
 *               on success, but where a function says otherwise. A pointer that is needed and
 *               null is TOWPATH_INVALID_ARGUMENT.
 *
 *   Structs     Options and the like begin with `size`: set it to sizeof of the struct (macro
 *               TOWPATH_INIT), so that a later library knows which fields you have. One whose size
 *               has no room for fields is TOWPATH_INVALID_ARGUMENT.
 *
 *   Ownership   *_open() hands out what *_close() takes back; null may be closed. Arrays, bytes and
 *               lists that are handed out are given back with towpath_free(), one call each.
 *
 *   Thread      A handle is for one thread at a time; different handles are independent.
 *
 * The nouns are those of the C++ library: docs/guides/connector.md.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): names as C programs spell them. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOWPATH_INIT(type) \
  { .size = sizeof(type) }

/* Numbers of this list never change. */
typedef enum {
  TOWPATH_OK = 0,
  TOWPATH_INVALID_ARGUMENT = 1,
  TOWPATH_OUT_OF_RANGE = 2,
  TOWPATH_NOT_FOUND = 3,
  TOWPATH_ALREADY_EXISTS = 4,
  TOWPATH_NOT_READY = 5,
  TOWPATH_UNSUPPORTED = 6,
  TOWPATH_UNAVAILABLE = 7,
  TOWPATH_EXHAUSTED = 8,
  TOWPATH_DENIED = 9,
  TOWPATH_TIMED_OUT = 10,
  TOWPATH_CANCELLED = 11,
  TOWPATH_PEER_LOST = 12,
  TOWPATH_CORRUPT = 13,
  TOWPATH_IO_ERROR = 14,
  TOWPATH_NO_TELEMETRY = 15,
  TOWPATH_INTERNAL = 16
} towpath_code_t;

typedef struct {
  towpath_code_t code;
  char text[1020]; /* one line, cut where it is longer */
} towpath_error_t;

/* "0.2.0" */
const char* towpath_version(void);
/* "corrupt"; "unknown" for a number that is none. */
const char* towpath_code_name(towpath_code_t code);
/* What was handed out; null is fine. */
void towpath_free(void* handed_out);

/* ---- A connector's scheduler: what is matched, loaded and saved ---- */

typedef struct towpath_scheduler towpath_scheduler_t;

typedef struct {
  size_t size;
  uint64_t tokens_per_block;       /* 0: 16 */
  uint32_t workers;                /* 0: 1 */
  uint32_t saves_in_background;    /* 0 or 1 */
  uint64_t salt;                   /* of hashes; secret where tenants do not trust each other */
  const char* name_space;          /* null: "" */
  uint64_t background_from_tokens; /* loads of so many go on while the request waits; 0: none do */
  uint32_t events_with_tokens;     /* 1: events say tokens, parent and room, as routers want them */
} towpath_scheduler_options_t;

typedef struct {
  size_t size;
  uint64_t computed_before; /* tokens, before this step and after it */
  uint64_t computed_after;
  const uint32_t* new_tokens; /* behind those known */
  size_t new_token_count;
  const uint64_t* new_blocks; /* behind those it has */
  size_t new_block_count;
  /* Of what is saved: how soon it goes on to files and objects, 1 to 255. 0: 50. What is below
   * KVBM's min_priority stays in memory. */
  uint32_t priority;
} towpath_progress_t;

towpath_code_t towpath_scheduler_open(const towpath_scheduler_options_t* options,
                                      towpath_scheduler_t** scheduler, towpath_error_t* error);
void towpath_scheduler_close(towpath_scheduler_t* scheduler);

typedef struct {
  size_t size;
  const uint32_t* tokens;
  size_t token_count;
  uint64_t computed;  /* that the engine has itself */
  const char* room;   /* adapter, tenant; null: none */
  const char* tenant; /* whose its blocks are, for a server's quotas: any text; null: nobody's */
} towpath_prompt_t;

/* How many tokens behind the computed ones can be loaded. May be asked again. */
towpath_code_t towpath_scheduler_match(towpath_scheduler_t* scheduler, const char* request,
                                       const towpath_prompt_t* prompt, uint64_t* tokens,
                                       int* in_background, towpath_error_t* error);
/* All of the request's blocks, from its first token on. */
towpath_code_t towpath_scheduler_allocate(towpath_scheduler_t* scheduler, const char* request,
                                          const uint64_t* blocks, size_t block_count,
                                          uint64_t loaded_tokens, towpath_error_t* error);
towpath_code_t towpath_scheduler_advance(towpath_scheduler_t* scheduler, const char* request,
                                         const towpath_progress_t* progress,
                                         towpath_error_t* error);
towpath_code_t towpath_scheduler_preempt(towpath_scheduler_t* scheduler, const char* request,
                                         towpath_error_t* error);
/* Once per request. blocks_stay: until all workers have sent, or received, it. */
towpath_code_t towpath_scheduler_finish(towpath_scheduler_t* scheduler, const char* request,
                                        int* blocks_stay, towpath_error_t* error);
/* A step of the engine that computes so many tokens, of all its requests, begins, and the one that
 * began first has ended. An engine that says these is matched no more than can be loaded sooner
 * than it is computed, by what both took lately. */
towpath_code_t towpath_scheduler_step_begins(towpath_scheduler_t* scheduler, uint64_t tokens,
                                             towpath_error_t* error);
towpath_code_t towpath_scheduler_step_ends(towpath_scheduler_t* scheduler, towpath_error_t* error);

/* What an orchestrator knows of a request that was matched and has not finished:
 * docs/guides/hints.md. */
typedef struct {
  size_t size;
  const char* action;   /* "prefetch", "pin", "retain", "demote", "share" */
  const char* id;       /* comes back with the answer; null: "" */
  uint64_t first_token; /* of the request's tokens known so far; whole blocks count */
  uint64_t end_token;   /* 0: to the last */
  uint64_t after_ms;    /* wait so long with it; a day at most, as the next */
  uint64_t keep_ms;     /* of pin, retain and share; 0: no longer */
  const char* session;  /* whose hint it is, any text; null: of those without one */
} towpath_hint_t;
/* Ordered with the next step. */
towpath_code_t towpath_scheduler_hint(towpath_scheduler_t* scheduler, const char* request,
                                      const towpath_hint_t* hint, towpath_error_t* error);
typedef struct {
  const char* id;
  const char* action;
  const char* outcome; /* "accepted", "clipped", "rejected" */
  uint64_t blocks;     /* that it was done for */
  uint64_t left;       /* that it was not done for */
  const char* why;     /* where it was not accepted; else "" */
} towpath_answered_hint_t;
/* That all workers have answered since the last call. The array, with all that it points to, is one
 * towpath_free(). */
towpath_code_t towpath_scheduler_take_answered_hints(towpath_scheduler_t* scheduler,
                                                     towpath_answered_hint_t** hints,
                                                     size_t* hint_count, towpath_error_t* error);

/* The step's orders, for every worker. */
towpath_code_t towpath_scheduler_build(towpath_scheduler_t* scheduler, void** orders,
                                       size_t* orders_size, towpath_error_t* error);
/* A worker's report. */
towpath_code_t towpath_scheduler_update(towpath_scheduler_t* scheduler, const void* report,
                                        size_t report_size, towpath_error_t* error);

/* A block that all workers came to hold, or hold no more. */
typedef struct {
  uint64_t hash;
  uint32_t is_stored;     /* 1: they hold it; 0: no more */
  uint32_t has_parent;    /* 0: the first of its prompt, or nothing was asked for */
  uint64_t parent;        /* the hash of the block before it */
  const uint32_t* tokens; /* of the block; none unless events_with_tokens */
  size_t token_count;
  const char* room; /* adapter, tenant, as it was matched with; "" for none */
} towpath_block_event_t;

/* Since the last call. The array, with all that it points to, is one towpath_free(). */
towpath_code_t towpath_scheduler_take_events(towpath_scheduler_t* scheduler,
                                             towpath_block_event_t** events, size_t* event_count,
                                             towpath_error_t* error);

/* ---- A connector's worker: one rank of the model ---- */

typedef struct towpath_worker towpath_worker_t;

/* How the engine's cache lies in memory; the numbers are those of the C++ library. */
enum {
  TOWPATH_FULLY_CONTIGUOUS = 0,            /* one region [blocks, layers, outer, page] */
  TOWPATH_LAYER_SEPARATE_BLOCK_FIRST = 1,  /* a region per layer [blocks, outer, page] */
  TOWPATH_LAYER_SEPARATE_BLOCK_SECOND = 2, /* a region per layer [outer, blocks, page] */
  TOWPATH_NHD = 0,                         /* a page is [token, head, dim] */
  TOWPATH_HND = 1,                         /* [head, token, dim] */
  TOWPATH_SYSTEM = 0,                      /* host memory */
  TOWPATH_DEVICE = 1                       /* a GPU's */
};

typedef struct {
  size_t size;
  const char* name_space; /* model, its version, type of elements: what distinguishes caches */
  uint64_t num_blocks;
  uint64_t num_layers;
  uint64_t outer_dim; /* 2: keys and values; 1: MLA */
  uint64_t tokens_per_block;
  uint64_t num_heads;
  uint64_t head_dim;
  uint64_t element_bytes;
  uint32_t kind;           /* TOWPATH_LAYER_SEPARATE_... */
  uint32_t format;         /* TOWPATH_NHD, TOWPATH_HND */
  uint32_t memory;         /* TOWPATH_SYSTEM, TOWPATH_DEVICE */
  uint32_t rank;           /* of workers */
  uint64_t device;         /* of TOWPATH_DEVICE */
  void* const* caches;     /* the engine's, which outlives the worker */
  const uint64_t* lengths; /* bytes of each */
  size_t cache_count;
  uint64_t first_layer; /* of the model, that this rank has */
  uint64_t first_head;
  uint64_t host_blocks;  /* kept in memory; 0: 1024 */
  const char* directory; /* null: no files */
  uint64_t disk_bytes;   /* 0: 16 GiB */
  /* Other workers, whose blocks are leased, and that lease from here, served by a thread. */
  const char* rendezvous;   /* where they meet: "etcd://host:2379/ns", "scope:job"; null: none */
  const char* peer_name;    /* of this worker there; null: one of chance */
  const char* const* peers; /* names of others, where a rendezvous notifies nobody of changes: */
  size_t peer_count;        /* all but etcd */
  const char* const* peer_backends; /* none: "shm"; "tcp" too for other machines */
  size_t peer_backend_count;
  uint64_t peer_timeout_ms;     /* for each step of a lease; 0: 2000 */
  uint32_t peer_serving_thread; /* of no effect: others are always served by a thread */
  /* "s3://BUCKET/PREFIX:SIZE", with "?endpoint_override=..." where the environment (AWS_*) does not
   * say it: blocks are kept as objects, too, below those in files. Null: none are. */
  const char* objects;
  /* Eviction policy of the memory: "lru", "s3-fifo", "adaptive", ... (docs/guides/kv_blocks.md).
   * Null: "lru". */
  const char* policy;
  const char* digest; /* "xxh3_64", "crc32c"; null: the first */
  /* KVBM's settings say how large these tiers are, and where: "" its variables and files, else this
   * JSON over those, which vLLM has as kv_connector_extra_config. Null: they are not read. */
  const char* kvbm;
  uint32_t min_accesses; /* of a block, before it is demoted to files and objects; 0: 1 */
  /* Not 0: files past the page cache (O_DIRECT), where the directory and a block's size allow it.
   * As wide as this: a narrower one would lie in the padding of the struct before it. */
  uint64_t direct;
  /* The socket of a server of this host (`towpath serve`), which keeps the blocks of all its
   * engines: "unix:/path". Null: there is none. */
  const char* server;
} towpath_worker_options_t;

towpath_code_t towpath_worker_open(const towpath_worker_options_t* options,
                                   towpath_worker_t** worker, towpath_error_t* error);
void towpath_worker_close(towpath_worker_t* worker);

towpath_code_t towpath_worker_start_step(towpath_worker_t* worker, const void* orders,
                                         size_t orders_size, towpath_error_t* error);
towpath_code_t towpath_worker_wait_for_layer_load(towpath_worker_t* worker, uint64_t layer,
                                                  towpath_error_t* error);
towpath_code_t towpath_worker_save_layer(towpath_worker_t* worker, uint64_t layer,
                                         towpath_error_t* error);
towpath_code_t towpath_worker_wait_for_save(towpath_worker_t* worker, towpath_error_t* error);
/* more: there is more to do at once. */
towpath_code_t towpath_worker_progress(towpath_worker_t* worker, int* more, towpath_error_t* error);
/* Names in two arrays of pointers; each array, with its names, is one towpath_free(). */
towpath_code_t towpath_worker_take_finished(towpath_worker_t* worker, char*** sent,
                                            size_t* sent_count, char*** received,
                                            size_t* received_count, towpath_error_t* error);
/* Blocks of the engine that a load was ordered into, and that do not hold it. */
towpath_code_t towpath_worker_take_failed_blocks(towpath_worker_t* worker, uint64_t** blocks,
                                                 size_t* block_count, towpath_error_t* error);
/* For towpath_scheduler_update(). */
towpath_code_t towpath_worker_take_report(towpath_worker_t* worker, void** report,
                                          size_t* report_size, towpath_error_t* error);

typedef struct {
  size_t size;
  uint64_t loaded_blocks;
  uint64_t failed_blocks;
  uint64_t saved_blocks;
  uint64_t unsaved_blocks;
  uint64_t peers;         /* that are known now */
  uint64_t leased_blocks; /* that came from them, and proved */
  uint64_t granted_blocks;
  uint64_t failed_leases;
  uint64_t steps;
  uint64_t engine_ns; /* that the engine's thread was in the calls of its steps */
} towpath_worker_figures_t;

towpath_code_t towpath_worker_figures(towpath_worker_t* worker, towpath_worker_figures_t* figures,
                                      towpath_error_t* error);
/* What was saved so far survives this process. */
towpath_code_t towpath_worker_sync(towpath_worker_t* worker, towpath_error_t* error);

/* ---- Named blobs in a folder ---- */

typedef struct towpath_blobs towpath_blobs_t;

towpath_code_t towpath_blobs_open(const char* directory, towpath_blobs_t** blobs,
                                  towpath_error_t* error);
void towpath_blobs_close(towpath_blobs_t* blobs);
/* A crash leaves the old blob of that name, or this one. `context` may be null. */
towpath_code_t towpath_blobs_save(towpath_blobs_t* blobs, const char* name, const char* context,
                                  const void* data, size_t length, towpath_error_t* error);
towpath_code_t towpath_blobs_length(towpath_blobs_t* blobs, const char* name, uint64_t* length,
                                    towpath_error_t* error);
/* Exactly what was saved; or a code, and zeros in all of `into`. */
towpath_code_t towpath_blobs_restore(towpath_blobs_t* blobs, const char* name, const char* context,
                                     void* into, size_t length, towpath_error_t* error);
towpath_code_t towpath_blobs_verify(towpath_blobs_t* blobs, const char* name,
                                    towpath_error_t* error);
towpath_code_t towpath_blobs_remove(towpath_blobs_t* blobs, const char* name,
                                    towpath_error_t* error);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
