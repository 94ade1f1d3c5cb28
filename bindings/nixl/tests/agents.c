#include "agents.h"

#include <poll.h>
#include <stdlib.h>

enum { kTimeoutMs = 10000 };

const char* peer_plugin(void) {
  const char* named = getenv("CAPI_TEST_PLUGIN");
  return named != NULL ? named : "shm";
}

nixl_capi_backend_t add_backend(nixl_capi_agent_t agent, const char* plugin) {
  nixl_capi_mem_list_t mems = NULL;
  nixl_capi_params_t params = NULL;
  nixl_capi_backend_t backend = NULL;
  OK(nixl_capi_get_plugin_params(agent, plugin, &mems, &params));
  OK(nixl_capi_create_backend(agent, plugin, params, &backend));
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_destroy_mem_list(mems));
  return backend;
}

struct side open_side(const char* name, const char* plugin) {
  struct side side = {NULL, NULL, NULL};
  OK(nixl_capi_create_agent(name, &side.agent));
  OK(nixl_capi_create_opt_args(&side.args));
  side.backend = add_backend(side.agent, plugin);
  OK(nixl_capi_opt_args_add_backend(side.args, side.backend));
  return side;
}

void close_side(struct side* side) {
  OK(nixl_capi_destroy_opt_args(side->args));
  OK(nixl_capi_destroy_backend(side->backend));
  OK(nixl_capi_destroy_agent(side->agent));
}

nixl_capi_reg_dlist_t reg_list(nixl_capi_mem_type_t type, const void* address, size_t size) {
  nixl_capi_reg_dlist_t list = NULL;
  OK(nixl_capi_create_reg_dlist(type, &list));
  OK(nixl_capi_reg_dlist_add_desc(list, (uintptr_t)address, size, 0, NULL, 0));
  return list;
}

nixl_capi_xfer_dlist_t xfer_list(nixl_capi_mem_type_t type, const void* address, size_t size) {
  nixl_capi_xfer_dlist_t list = NULL;
  OK(nixl_capi_create_xfer_dlist(type, &list));
  OK(nixl_capi_xfer_dlist_add_desc(list, (uintptr_t)address, size, 0));
  return list;
}

nixl_capi_xfer_dlist_t piece_list(const void* address, size_t size, size_t count) {
  nixl_capi_xfer_dlist_t list = NULL;
  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, &list));
  for (size_t i = 0; i < count; ++i)
    OK(nixl_capi_xfer_dlist_add_desc(list, (uintptr_t)address + i * size, size, 0));
  return list;
}

void register_bytes(struct side* side, const void* address, size_t size) {
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, address, size);
  OK(nixl_capi_register_mem(side->agent, list, side->args));
  OK(nixl_capi_destroy_reg_dlist(list));
}

void introduce(struct side* from, struct side* of) {
  void* data = NULL;
  size_t size = 0;
  char* name = NULL;
  OK(nixl_capi_get_local_md(of->agent, &data, &size));
  OK(nixl_capi_load_remote_md(from->agent, data, size, &name));
  free(name);
  free(data);
}

/* A pause between two looks at something that moves by itself. */
static void pause_a_moment(void) { (void)poll(NULL, 0, 1); }

int status_at_end(nixl_capi_agent_t agent, nixl_capi_xfer_req_t request) {
  for (int waited = 0; waited < kTimeoutMs; ++waited) {
    const int status = nixl_capi_get_xfer_status(agent, request);
    if (status != NIXL_CAPI_IN_PROG) return status;
    pause_a_moment();
  }
  return -100;
}

void drop(nixl_capi_agent_t agent, nixl_capi_xfer_req_t request) {
  OK(nixl_capi_release_xfer_req(agent, request));
  OK(nixl_capi_destroy_xfer_req(request));
}

bool wait_notifications(nixl_capi_agent_t agent, nixl_capi_notif_map_t map, const char* sender,
                        size_t count) {
  for (int waited = 0; waited < kTimeoutMs; ++waited) {
    size_t have = 0;
    OK(nixl_capi_get_notifs(agent, map, NULL));
    if (nixl_capi_notif_map_get_notifs_size(map, sender, &have) == NIXL_CAPI_SUCCESS &&
        have >= count)
      return true;
    pause_a_moment();
  }
  return false;
}
