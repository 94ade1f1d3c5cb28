/* The C interface that NIXL's Rust crate (nixl-sys) calls, over Towpath's agent.
 *
 * Names, parameters and numbers are the ones that its consumers were compiled against; the rest is
 * ours. NIXL's C++ headers (nixl.h and what they include) are not offered.
 *
 * What holds for every function
 *   Result      NIXL_CAPI_SUCCESS, or why not. A pointer that is needed and null is
 *               NIXL_CAPI_ERROR_INVALID_PARAM; `opt_args` may always be null. Nothing is written to
 *               an output unless the call succeeds. The text of each failure of an agent goes to
 *               standard error at the level that NIXL_LOG_LEVEL sets (default: WARN).
 *   Ownership   create_*, make_* and prep_* hand out what the matching destroy_* or release_* takes
 *               back. Bytes behind `void** data` and text behind `char**` are the caller's to
 *               free(). What is handed out behind `const char**` and `const void**` is lent: it
 *               lives as long as the handle that it came from, unless that is changed.
 *   Lifetime    Handles do not keep their agent alive. Destroy what belongs to an agent before it;
 *               transfers that are still moving then are ended first, and waited for.
 *   Backends    A backend handle stands for the name of its type; in `opt_args` the names count.
 *
 * Thread: an agent may be used from any thread. Every other handle by one thread at a time.
 */
#pragma once

/* NOLINTBEGIN(readability-identifier-naming): these names are an interface of others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  NIXL_CAPI_SUCCESS = 0,
  NIXL_CAPI_IN_PROG = 1,              /* a state, no failure: ask again */
  NIXL_CAPI_ERROR_INVALID_PARAM = -1, /* the call is wrong */
  NIXL_CAPI_ERROR_BACKEND = -2,       /* it could not be done; the log says why */
  NIXL_CAPI_ERROR_INVALID_STATE = -3, /* release it before you destroy it */
  NIXL_CAPI_ERROR_EXCEPTION = -4,     /* never returned */
  NIXL_CAPI_ERROR_NO_TELEMETRY = -5,  /* the agent records no figures */
  NIXL_CAPI_ERROR_NOT_FOUND = -6      /* no such agent, registration or backend */
} nixl_capi_status_t;

typedef enum {
  NIXL_CAPI_MEM_DRAM = 0,
  NIXL_CAPI_MEM_VRAM = 1,
  NIXL_CAPI_MEM_BLOCK = 2,
  NIXL_CAPI_MEM_OBJECT = 3,
  NIXL_CAPI_MEM_FILE = 4,
  NIXL_CAPI_MEM_UNKNOWN = 5 /* a list of it can be filled, and used for nothing */
} nixl_capi_mem_type_t;

typedef enum {
  NIXL_CAPI_THREAD_SYNC_NONE = 0,
  NIXL_CAPI_THREAD_SYNC_STRICT = 1,
  NIXL_CAPI_THREAD_SYNC_RW = 2,
  NIXL_CAPI_THREAD_SYNC_DEFAULT = NIXL_CAPI_THREAD_SYNC_NONE
} nixl_capi_thread_sync_t;

typedef enum {
  NIXL_CAPI_XFER_OP_READ = 0, /* remote bytes come here */
  NIXL_CAPI_XFER_OP_WRITE = 1 /* local bytes go there */
} nixl_capi_xfer_op_t;

typedef enum { NIXL_CAPI_COST_ANALYTICAL_BACKEND = 0 } nixl_capi_cost_t;

typedef struct nixl_capi_agent_s* nixl_capi_agent_t;
typedef struct nixl_capi_backend_s* nixl_capi_backend_t;
typedef struct nixl_capi_mem_list_s* nixl_capi_mem_list_t;
typedef struct nixl_capi_mem_view_s* nixl_capi_mem_view_t;
typedef struct nixl_capi_notif_map_s* nixl_capi_notif_map_t;
typedef struct nixl_capi_opt_args_s* nixl_capi_opt_args_t;
typedef struct nixl_capi_param_iter_s* nixl_capi_param_iter_t;
typedef struct nixl_capi_params_s* nixl_capi_params_t;
typedef struct nixl_capi_query_resp_list_s* nixl_capi_query_resp_list_t;
typedef struct nixl_capi_reg_dlist_s* nixl_capi_reg_dlist_t;
typedef struct nixl_capi_remote_dlist_s* nixl_capi_remote_dlist_t;
typedef struct nixl_capi_string_list_s* nixl_capi_string_list_t;
typedef struct nixl_capi_xfer_dlist_handle_s* nixl_capi_xfer_dlist_handle_t;
typedef struct nixl_capi_xfer_dlist_s* nixl_capi_xfer_dlist_t;
typedef struct nixl_capi_xfer_req_s* nixl_capi_xfer_req_t;

typedef struct nixl_capi_agent_config_s {
  bool enable_prog_thread;             /* else status and notification calls move the bytes */
  bool enable_listen_thread;           /* serve and take metadata over TCP */
  int listen_port;                     /* 0: any free one */
  nixl_capi_thread_sync_t thread_sync; /* not needed: an agent is always safe to share */
  unsigned int num_workers;            /* not needed */
  uint64_t pthr_delay_us;              /* not needed: the thread sleeps until there is work */
  uint64_t lthr_delay_us;              /* not needed */
  bool capture_telemetry;              /* NIXL_TELEMETRY_ENABLE, when set, decides instead */
} nixl_capi_agent_config_t;

struct nixl_capi_xfer_telemetry_s {
  uint64_t start_time_us;    /* of the post, since the Unix epoch */
  uint64_t post_duration_us; /* spent in the post; at least 1 */
  uint64_t xfer_duration_us; /* from the post to the end; never less than the post */
  uint64_t total_bytes;      /* that were moved */
  uint64_t desc_count;       /* as they were listed */
};
typedef struct nixl_capi_xfer_telemetry_s* nixl_capi_xfer_telemetry_t;

/* ---- Agents ---------------------------------------------------------------------------------- */

/* `name` is 1 to 16384 bytes. BACKEND: an empty name, or the listener cannot be opened.
   INVALID_PARAM: it is to listen at a port that is none. */
nixl_capi_status_t nixl_capi_create_configured_agent(const char* name,
                                                     const nixl_capi_agent_config_t* cfg,
                                                     nixl_capi_agent_t* agent);
/* As above, with a progress thread and nothing else. */
nixl_capi_status_t nixl_capi_create_agent(const char* name, nixl_capi_agent_t* agent);
/* Ends what moves, waits until it is quiesced, deregisters, stops the threads. */
nixl_capi_status_t nixl_capi_destroy_agent(nixl_capi_agent_t agent);
/* False: this is the library itself. */
bool nixl_capi_is_stub(void);

/* ---- Metadata: what peers must know of an agent -----------------------------------------------
 */

/* INVALID_PARAM: no backend of this agent reaches peers. */
nixl_capi_status_t nixl_capi_get_local_md(nixl_capi_agent_t agent, void** data, size_t* len);
/* Only the regions that hold `descs`, and always how to connect; an empty list: only the latter.
   NOT_FOUND: one of them is not registered. */
nixl_capi_status_t nixl_capi_get_local_partial_md(nixl_capi_agent_t agent,
                                                  nixl_capi_reg_dlist_t descs, void** data,
                                                  size_t* len, nixl_capi_opt_args_t opt_args);
/* Makes a peer known, or updates what is known of it. INVALID_PARAM: the agent's own. BACKEND: not
   metadata, or damaged, or no backend in common. */
nixl_capi_status_t nixl_capi_load_remote_md(nixl_capi_agent_t agent, const void* data, size_t len,
                                            char** agent_name);
/* Forgets a peer and ends what moves to and from it. */
nixl_capi_status_t nixl_capi_invalidate_remote_md(nixl_capi_agent_t agent,
                                                  const char* remote_agent);
/* NOT_FOUND: the peer is not known, or (`descs` may be null) not all of them lie in its memory. */
nixl_capi_status_t nixl_capi_check_remote_md(nixl_capi_agent_t agent, const char* remote_name,
                                             nixl_capi_xfer_dlist_t descs);
/* The next four go to the address in `opt_args`, or to the central store that NIXL_ETCD_ENDPOINTS
   names; INVALID_PARAM when there is neither. SUCCESS means accepted: poll check_remote_md for what
   came of it, and see the log. */
nixl_capi_status_t nixl_capi_send_local_md(nixl_capi_agent_t agent, nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_send_local_partial_md(nixl_capi_agent_t agent,
                                                   nixl_capi_reg_dlist_t descs,
                                                   nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_fetch_remote_md(nixl_capi_agent_t agent, const char* remote_name,
                                             nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_invalidate_local_md(nixl_capi_agent_t agent,
                                                 nixl_capi_opt_args_t opt_args);

/* ---- Backends ---------------------------------------------------------------------------------
 */

/* Under the names that NIXL's users know ("UCX", "POSIX"), else under ours ("shm"). */
nixl_capi_status_t nixl_capi_get_available_plugins(nixl_capi_agent_t agent,
                                                   nixl_capi_string_list_t* plugins);
nixl_capi_status_t nixl_capi_destroy_string_list(nixl_capi_string_list_t list);
nixl_capi_status_t nixl_capi_string_list_size(nixl_capi_string_list_t list, size_t* size);
nixl_capi_status_t nixl_capi_string_list_get(nixl_capi_string_list_t list, size_t index,
                                             const char** str);

/* The memory that a type can take, and its parameters with their defaults. BACKEND: unknown. */
nixl_capi_status_t nixl_capi_get_plugin_params(nixl_capi_agent_t agent, const char* plugin_name,
                                               nixl_capi_mem_list_t* mems,
                                               nixl_capi_params_t* params);
/* One of each type. BACKEND: unknown, there is one, a parameter is wrong, it cannot run here. */
nixl_capi_status_t nixl_capi_create_backend(nixl_capi_agent_t agent, const char* plugin_name,
                                            nixl_capi_params_t params,
                                            nixl_capi_backend_t* backend);
/* Takes back the handle; the backend itself goes with its agent. */
nixl_capi_status_t nixl_capi_destroy_backend(nixl_capi_backend_t backend);
/* The memory that it takes here, and the parameters it runs with. */
nixl_capi_status_t nixl_capi_get_backend_params(nixl_capi_agent_t agent,
                                                nixl_capi_backend_t backend,
                                                nixl_capi_mem_list_t* mems,
                                                nixl_capi_params_t* params);

nixl_capi_status_t nixl_capi_destroy_mem_list(nixl_capi_mem_list_t list);
nixl_capi_status_t nixl_capi_mem_list_is_empty(nixl_capi_mem_list_t list, bool* is_empty);
nixl_capi_status_t nixl_capi_mem_list_size(nixl_capi_mem_list_t list, size_t* size);
nixl_capi_status_t nixl_capi_mem_list_get(nixl_capi_mem_list_t list, size_t index,
                                          nixl_capi_mem_type_t* mem_type);
nixl_capi_status_t nixl_capi_mem_type_to_string(nixl_capi_mem_type_t mem_type, const char** str);

/* ---- Parameters: text by name -----------------------------------------------------------------
 */

nixl_capi_status_t nixl_capi_create_params(nixl_capi_params_t* params);
nixl_capi_status_t nixl_capi_destroy_params(nixl_capi_params_t params);
/* Replaces what stood under `key`. */
nixl_capi_status_t nixl_capi_params_add(nixl_capi_params_t params, const char* key,
                                        const char* value);
nixl_capi_status_t nixl_capi_params_is_empty(nixl_capi_params_t params, bool* is_empty);
/* Walks over the parameters as they are now; lends key and value until it is destroyed. */
nixl_capi_status_t nixl_capi_params_create_iterator(nixl_capi_params_t params,
                                                    nixl_capi_param_iter_t* iter);
/* Behind the last one: SUCCESS, `has_next` false, `key` and `value` as they were. */
nixl_capi_status_t nixl_capi_params_iterator_next(nixl_capi_param_iter_t iter, const char** key,
                                                  const char** value, bool* has_next);
nixl_capi_status_t nixl_capi_params_destroy_iterator(nixl_capi_param_iter_t iter);

/* ---- Optional arguments -----------------------------------------------------------------------
 */

nixl_capi_status_t nixl_capi_create_opt_args(nixl_capi_opt_args_t* args);
nixl_capi_status_t nixl_capi_destroy_opt_args(nixl_capi_opt_args_t args);
/* Only these backends, preferred in the order in which they were added. */
nixl_capi_status_t nixl_capi_opt_args_add_backend(nixl_capi_opt_args_t args,
                                                  nixl_capi_backend_t backend);
/* Keeps a copy; it is sent only while has_notif is true. */
nixl_capi_status_t nixl_capi_opt_args_set_notif_msg(nixl_capi_opt_args_t args, const void* data,
                                                    size_t len);
nixl_capi_status_t nixl_capi_opt_args_get_notif_msg(nixl_capi_opt_args_t args, void** data,
                                                    size_t* len);
nixl_capi_status_t nixl_capi_opt_args_set_has_notif(nixl_capi_opt_args_t args, bool has_notif);
nixl_capi_status_t nixl_capi_opt_args_get_has_notif(nixl_capi_opt_args_t args, bool* has_notif);
/* Kept for who asks for it again; no backend of Towpath reads one. */
nixl_capi_status_t nixl_capi_opt_args_set_custom_param(nixl_capi_opt_args_t args, const void* data,
                                                       size_t len);
nixl_capi_status_t nixl_capi_opt_args_get_custom_param(nixl_capi_opt_args_t args, void** data,
                                                       size_t* len);
nixl_capi_status_t nixl_capi_opt_args_set_skip_desc_merge(nixl_capi_opt_args_t args,
                                                          bool skip_merge);
nixl_capi_status_t nixl_capi_opt_args_get_skip_desc_merge(nixl_capi_opt_args_t args,
                                                          bool* skip_merge);
/* Of the peer's listener: an IPv4 or IPv6 address, or a host name. */
nixl_capi_status_t nixl_capi_opt_args_set_ip_addr(nixl_capi_opt_args_t args, const char* ip_addr);
/* 8888 unless set. */
nixl_capi_status_t nixl_capi_opt_args_set_port(nixl_capi_opt_args_t args, uint16_t port);

/* ---- Descriptor lists -------------------------------------------------------------------------
 */
/* Where bytes are: DRAM and VRAM an address; FILE an offset, and the file descriptor as dev_id or,
   at registration, a path as metadata; OBJECT an offset and a number, whose key is the metadata at
   registration; BLOCK an offset and a device number. Order and repetition are kept. */

nixl_capi_status_t nixl_capi_create_xfer_dlist(nixl_capi_mem_type_t mem_type,
                                               nixl_capi_xfer_dlist_t* dlist);
nixl_capi_status_t nixl_capi_destroy_xfer_dlist(nixl_capi_xfer_dlist_t dlist);
nixl_capi_status_t nixl_capi_xfer_dlist_get_type(nixl_capi_xfer_dlist_t dlist,
                                                 nixl_capi_mem_type_t* mem_type);
nixl_capi_status_t nixl_capi_xfer_dlist_add_desc(nixl_capi_xfer_dlist_t dlist, uintptr_t addr,
                                                 size_t len, uint64_t dev_id);
nixl_capi_status_t nixl_capi_xfer_dlist_desc_count(nixl_capi_xfer_dlist_t dlist, size_t* count);
nixl_capi_status_t nixl_capi_xfer_dlist_len(nixl_capi_xfer_dlist_t dlist, size_t* len);
nixl_capi_status_t nixl_capi_xfer_dlist_is_empty(nixl_capi_xfer_dlist_t dlist, bool* is_empty);
nixl_capi_status_t nixl_capi_xfer_dlist_trim(nixl_capi_xfer_dlist_t dlist);
/* BACKEND: no such index. */
nixl_capi_status_t nixl_capi_xfer_dlist_rem_desc(nixl_capi_xfer_dlist_t dlist, int index);
nixl_capi_status_t nixl_capi_xfer_dlist_clear(nixl_capi_xfer_dlist_t dlist);
/* Cuts, or fills up with empty descriptors. */
nixl_capi_status_t nixl_capi_xfer_dlist_resize(nixl_capi_xfer_dlist_t dlist, size_t new_size);
/* To standard output. */
nixl_capi_status_t nixl_capi_xfer_dlist_print(nixl_capi_xfer_dlist_t dlist);

nixl_capi_status_t nixl_capi_create_reg_dlist(nixl_capi_mem_type_t mem_type,
                                              nixl_capi_reg_dlist_t* dlist);
nixl_capi_status_t nixl_capi_destroy_reg_dlist(nixl_capi_reg_dlist_t dlist);
nixl_capi_status_t nixl_capi_reg_dlist_get_type(nixl_capi_reg_dlist_t dlist,
                                                nixl_capi_mem_type_t* mem_type);
/* `metadata` may be null when `metadata_len` is 0. */
nixl_capi_status_t nixl_capi_reg_dlist_add_desc(nixl_capi_reg_dlist_t dlist, uintptr_t addr,
                                                size_t len, uint64_t dev_id, const void* metadata,
                                                size_t metadata_len);
nixl_capi_status_t nixl_capi_reg_dlist_desc_count(nixl_capi_reg_dlist_t dlist, size_t* count);
nixl_capi_status_t nixl_capi_reg_dlist_is_empty(nixl_capi_reg_dlist_t dlist, bool* is_empty);
nixl_capi_status_t nixl_capi_reg_dlist_trim(nixl_capi_reg_dlist_t dlist);
nixl_capi_status_t nixl_capi_reg_dlist_rem_desc(nixl_capi_reg_dlist_t dlist, int index);
nixl_capi_status_t nixl_capi_reg_dlist_clear(nixl_capi_reg_dlist_t dlist);
nixl_capi_status_t nixl_capi_reg_dlist_resize(nixl_capi_reg_dlist_t dlist, size_t new_size);
nixl_capi_status_t nixl_capi_reg_dlist_print(nixl_capi_reg_dlist_t dlist);

nixl_capi_status_t nixl_capi_create_remote_dlist(nixl_capi_mem_type_t mem_type,
                                                 nixl_capi_remote_dlist_t* dlist);
nixl_capi_status_t nixl_capi_destroy_remote_dlist(nixl_capi_remote_dlist_t dlist);
/* `remote_agent` null: a hole that keeps the others' indices. */
nixl_capi_status_t nixl_capi_remote_dlist_add_desc(nixl_capi_remote_dlist_t dlist, uintptr_t addr,
                                                   size_t len, uint64_t dev_id,
                                                   const char* remote_agent);

/* ---- Memory -----------------------------------------------------------------------------------
 */

/* All of the list or nothing, with each backend of `opt_args`; without any, with every backend that
   takes this memory, at least one. The same memory may be registered any number of times.
   FILE, OBJECT, BLOCK: length 0 is all of it. NOT_FOUND: no backend takes it, and none was named.
   BACKEND: those that were named do not. */
nixl_capi_status_t nixl_capi_register_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                          nixl_capi_opt_args_t opt_args);
/* Takes back one registration for each descriptor (address, length and dev_id count), ends what
   still moves these bytes and waits until it is quiesced. NOT_FOUND: one of them was not
   registered; then nothing is taken back from that backend. */
nixl_capi_status_t nixl_capi_deregister_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                            nixl_capi_opt_args_t opt_args);
/* What the one backend in `opt_args` knows of each descriptor; replaces what `resp` held.
   INVALID_PARAM: not exactly one. */
nixl_capi_status_t nixl_capi_query_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                       nixl_capi_query_resp_list_t resp,
                                       nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_create_query_resp_list(nixl_capi_query_resp_list_t* list);
nixl_capi_status_t nixl_capi_destroy_query_resp_list(nixl_capi_query_resp_list_t list);
nixl_capi_status_t nixl_capi_query_resp_list_size(nixl_capi_query_resp_list_t list, size_t* size);
/* False: there is no such file or object. */
nixl_capi_status_t nixl_capi_query_resp_list_has_value(nixl_capi_query_resp_list_t list,
                                                       size_t index, bool* has_value);
/* The caller destroys `params`. INVALID_PARAM: there is no value. */
nixl_capi_status_t nixl_capi_query_resp_list_get_params(nixl_capi_query_resp_list_t list,
                                                        size_t index, nixl_capi_params_t* params);

/* Elements of this agent, or of several peers with holes between, looked up once. NIXL makes views
   of a GPU's memory, for transfers that it starts: here they are BACKEND. Ours are of DRAM, and a
   pointer to one, cast to nixl_capi_xfer_dlist_handle_t, is a side of nixl_capi_make_xfer_req():
   indices name elements of the view, all of one peer and none of them a hole, else INVALID_PARAM.
   The caller gives it back with nixl_capi_release_mem_view() and with nothing else; requests that
   were made with it go on. NOT_FOUND: no elements, holes alone, memory that is not registered, a
   peer that is not known. */
nixl_capi_status_t nixl_capi_prep_mem_view_local(nixl_capi_agent_t agent,
                                                 nixl_capi_xfer_dlist_t descs,
                                                 nixl_capi_mem_view_t* mvh,
                                                 nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_prep_mem_view_remote(nixl_capi_agent_t agent,
                                                  nixl_capi_remote_dlist_t descs,
                                                  nixl_capi_mem_view_t* mvh,
                                                  nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_release_mem_view(nixl_capi_agent_t agent, nixl_capi_mem_view_t mvh);

/* ---- Transfers --------------------------------------------------------------------------------
 */

/* Not needed: connections are made with the metadata. NOT_FOUND: the peer is not known. */
nixl_capi_status_t nixl_capi_agent_make_connection(nixl_capi_agent_t agent,
                                                   const char* remote_agent,
                                                   nixl_capi_opt_args_t opt_args);
/* `agent_name` "": the local side. The agent's own name: its own memory as the remote side.
   NOT_FOUND: the peer is not known, or not all of the list is registered. */
nixl_capi_status_t nixl_capi_prep_xfer_dlist(nixl_capi_agent_t agent, const char* agent_name,
                                             nixl_capi_xfer_dlist_t descs,
                                             nixl_capi_xfer_dlist_handle_t* dlist_hndl,
                                             nixl_capi_opt_args_t opt_args);
/* Requests that were made from it go on working. */
nixl_capi_status_t nixl_capi_release_xfer_dlist_handle(nixl_capi_agent_t agent,
                                                       nixl_capi_xfer_dlist_handle_t dlist_handle);
/* The i-th of the local indices goes with the i-th of the remote ones. INVALID_PARAM: unlike
   counts, none, an index that is none, unlike lengths, sides swapped, targets that overlap. */
nixl_capi_status_t nixl_capi_make_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                           nixl_capi_xfer_dlist_handle_t local_descs,
                                           const int* local_indices, size_t local_indices_count,
                                           nixl_capi_xfer_dlist_handle_t remote_descs,
                                           const int* remote_indices, size_t remote_indices_count,
                                           nixl_capi_xfer_req_t* req_hndl,
                                           nixl_capi_opt_args_t opt_args);
/* Prepares both sides for one request. BACKEND: whatever was wrong. */
nixl_capi_status_t nixl_capi_create_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                             nixl_capi_xfer_dlist_t local_descs,
                                             nixl_capi_xfer_dlist_t remote_descs,
                                             const char* remote_agent,
                                             nixl_capi_xfer_req_t* req_hndl,
                                             nixl_capi_opt_args_t opt_args);
/* The margin is how much longer than the duration the slowest of the timed transfers of this kind
   and size took; 0: it is not known, since none or one was timed. BACKEND: nothing is known of what
   this path costs. */
nixl_capi_status_t nixl_capi_estimate_xfer_cost(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl,
                                                nixl_capi_opt_args_t opt_args, int64_t* duration_us,
                                                int64_t* err_margin_us, nixl_capi_cost_t* method);
/* SUCCESS: all bytes are in place. IN_PROG: poll get_xfer_status. A request that has ended may be
   posted again. `opt_args` null keeps the notification, without one takes it away, with one, which
   may be empty, replaces it. */
nixl_capi_status_t nixl_capi_post_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req_hndl,
                                           nixl_capi_opt_args_t opt_args);
/* IN_PROG until no byte can move any more, also after a failure. NOT_FOUND: the peer or the memory
   was taken away meanwhile. BACKEND: not posted, or it failed. */
nixl_capi_status_t nixl_capi_get_xfer_status(nixl_capi_agent_t agent,
                                             nixl_capi_xfer_req_t req_hndl);
/* A new handle, for the caller to destroy. */
nixl_capi_status_t nixl_capi_query_xfer_backend(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl,
                                                nixl_capi_backend_t* backend);
/* Ends what still moves and returns when no byte can move any more. BACKEND: that did not come
   about in time; the request still stands. INVALID_PARAM: it was released before. */
nixl_capi_status_t nixl_capi_release_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req);
/* INVALID_STATE: release it first. */
nixl_capi_status_t nixl_capi_destroy_xfer_req(nixl_capi_xfer_req_t req);
/* NO_TELEMETRY: the agent records none. IN_PROG: it has not ended. BACKEND: it was not posted. */
nixl_capi_status_t nixl_capi_get_xfer_telemetry(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl,
                                                nixl_capi_xfer_telemetry_t telemetry);

/* ---- Notifications ----------------------------------------------------------------------------
 */

nixl_capi_status_t nixl_capi_gen_notif(nixl_capi_agent_t agent, const char* remote_agent,
                                       const void* data, size_t len, nixl_capi_opt_args_t opt_args);
/* Adds what has arrived to the map, in order per sender. */
nixl_capi_status_t nixl_capi_get_notifs(nixl_capi_agent_t agent, nixl_capi_notif_map_t notif_map,
                                        nixl_capi_opt_args_t opt_args);
nixl_capi_status_t nixl_capi_create_notif_map(nixl_capi_notif_map_t* notif_map);
nixl_capi_status_t nixl_capi_destroy_notif_map(nixl_capi_notif_map_t notif_map);
/* Senders in the map. */
nixl_capi_status_t nixl_capi_notif_map_size(nixl_capi_notif_map_t map, size_t* size);
nixl_capi_status_t nixl_capi_notif_map_get_agent_at(nixl_capi_notif_map_t map, size_t index,
                                                    const char** agent_name);
nixl_capi_status_t nixl_capi_notif_map_get_notifs_size(nixl_capi_notif_map_t map,
                                                       const char* agent_name, size_t* size);
nixl_capi_status_t nixl_capi_notif_map_get_notif(nixl_capi_notif_map_t map, const char* agent_name,
                                                 size_t index, const void** data, size_t* len);
nixl_capi_status_t nixl_capi_notif_map_clear(nixl_capi_notif_map_t map);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
