// A backend from outside: what a shared object must offer so that Towpath can move bytes with it.
//
// It is C, and versioned: types only grow at their end, and say how large they are. A plug-in is a
// file libtowpath_backend_NAME.so in a directory that is named explicitly (standard.h), and has one
// visible function, towpath_backend_v1(), which returns a description that never changes.
//
// Version 1 is for engines that move bytes within one agent: storage, accelerators, other memory.
// The local side is the agent's, and so is the remote one; peers and notifications are not in it.
//
// What a plug-in promises
//  1. Each post() is answered by exactly one host->complete(), from inside post(), cancel() or
//     progress(). Then no byte can land in, or leave, the memory of either side on its behalf.
//  2. complete() says code 0 only if every byte of every segment is in place.
//  3. progress() does a bounded amount of work and never blocks; it returns whether more can be
// done at once. wait_fd() becomes readable when progress() has something to do.
//
// Numbers of kinds, operations and codes are those of core/memory_kind.h, core/transfer_state.h and
// core/status.h. `why` is a buffer for a sentence that ends in a zero.
// Thread: the host serialises all calls on a backend; different backends run at the same time.
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): C types. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct towpath_pair_v1 {
  uint32_t local_kind;
  uint32_t remote_kind;
  bool read;  /* remote to local */
  bool write; /* local to remote */
} towpath_pair_v1;

typedef struct towpath_param_v1 {
  const char* name;
  const char* value; /* in a description: the default */
  const char* meaning;
} towpath_param_v1;

typedef struct towpath_region_v1 {
  size_t size; /* of this type */
  uint32_t kind;
  int fd; /* disk: the open file, the host's own descriptor; -1: none. Open while registered. */
  uint64_t address;
  uint64_t length;
  uint64_t device_id;
  const char* key; /* object: its key; disk: its path, for messages. Lent for the call. */
  size_t key_length;
} towpath_region_v1;

/* `count` equal extents: i * stride behind each address. */
typedef struct towpath_segment_v1 {
  void* local; /* as register_memory() gave them */
  void* remote;
  uint64_t local_address;
  uint64_t remote_address;
  uint64_t length;
  uint64_t count;
  uint64_t local_stride;
  uint64_t remote_stride;
} towpath_segment_v1;

/* What a backend is given; lives as long as it. */
typedef struct towpath_host_v1 {
  size_t size;
  void* self;
  /* `bytes` are in place. `message` says why, when the code is not 0; it is copied. */
  void (*complete)(void* self, void* operation, int32_t code, const char* message, uint64_t bytes);
} towpath_host_v1;

typedef struct towpath_backend_v1_t {
  size_t size;
  const char* name; /* lower case */
  const char* summary;
  const towpath_pair_v1* pairs;
  size_t pair_count;
  const towpath_param_v1* params; /* all that it reads; others are refused by name */
  size_t param_count;
  uint64_t alignment;          /* of addresses and lengths that need no detour; 1: any */
  uint64_t latency_ns;         /* declared cost of a transfer: latency ... */
  double bytes_per_second;     /* ... and bandwidth; 0: unknown */
  uint64_t quiesced_within_ns; /* 0: cancel() completes before it returns; else it ends by itself */

  int32_t (*open)(const towpath_host_v1* host, const towpath_param_v1* params, size_t count,
                  void** backend, char* why, size_t why_size);
  void (*close)(void* backend);
  int32_t (*register_memory)(void* backend, const towpath_region_v1* region, void** memory,
                             char* why, size_t why_size);
  void (*deregister_memory)(void* backend, void* memory);
  /* `segments` stay as they are until completion. op: 0 read, 1 write. */
  void (*post)(void* backend, void* operation, uint32_t op, const towpath_segment_v1* segments,
               size_t count);
  void (*cancel)(void* backend, void* operation);
  bool (*progress)(void* backend);
  int (*wait_fd)(void* backend); /* -1: never needed */
} towpath_backend_v1_t;

/* The one function of a plug-in. */
const towpath_backend_v1_t* towpath_backend_v1(void);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
