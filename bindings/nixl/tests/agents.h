/* Agents, lists and requests as the cases need them. Everything that is made here must be there: a
 * case that cannot get it has failed a check and goes on with null.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "check.h"

/* An agent with one backend, and optional arguments that name it. */
struct side {
  nixl_capi_agent_t agent;
  nixl_capi_backend_t backend;
  nixl_capi_opt_args_t args;
};

/* A plug-in that reaches peers: shm, or what CAPI_TEST_PLUGIN names. */
const char* peer_plugin(void);
struct side open_side(const char* name, const char* plugin);
void close_side(struct side* side);
nixl_capi_backend_t add_backend(nixl_capi_agent_t agent, const char* plugin);

nixl_capi_reg_dlist_t reg_list(nixl_capi_mem_type_t type, const void* address, size_t size);
nixl_capi_xfer_dlist_t xfer_list(nixl_capi_mem_type_t type, const void* address, size_t size);
/* `count` pieces of `size` bytes, one behind the other. */
nixl_capi_xfer_dlist_t piece_list(const void* address, size_t size, size_t count);

void register_bytes(struct side* side, const void* address, size_t size);
/* `from` learns of `of`. */
void introduce(struct side* from, struct side* of);
/* What the request ends with; -100 when it does not within ten seconds. */
int status_at_end(nixl_capi_agent_t agent, nixl_capi_xfer_req_t request);
void drop(nixl_capi_agent_t agent, nixl_capi_xfer_req_t request);
/* Waits until `map` holds `count` notifications of `sender`. */
bool wait_notifications(nixl_capi_agent_t agent, nixl_capi_notif_map_t map, const char* sender,
                        size_t count);
