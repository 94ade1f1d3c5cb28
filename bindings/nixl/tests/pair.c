/* pair owner|reader FOLDER: two processes that ask for "UCX" and nothing else, wherever they run.
 *
 * They give each other their metadata through files in the folder; the reader reads what the owner
 * has, and the owner waits until it hears that it did. Which way the bytes went is in the flight
 * recorders, for who started the two (tests/process/test_nixl_pair.py).
 */
#include <poll.h>
#include <stdlib.h>

#include "agents.h"

enum { kBytes = 1 << 20, kOthersTimeoutMs = 60000, kOwners = 7 };

int failed_checks = 0;

static const char* folder;
static unsigned char bytes[kBytes];

static const char* path_of(const char* name, const char* end) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, end);
  return path;
}

/* Under its name once it is whole. */
static void leave_metadata(struct side* side, const char* name) {
  void* data = NULL;
  size_t size = 0;
  OK(nixl_capi_get_local_md(side->agent, &data, &size));
  char* half = strdup(path_of(name, ".half"));
  FILE* file = fopen(half, "wb");
  CHECK(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
  CHECK(rename(half, path_of(name, ".md")) == 0);
  free(half);
  free(data);
}

static void find_metadata(struct side* side, const char* name) {
  static char data[1 << 20];
  FILE* file = NULL;
  for (int waited = 0; file == NULL && waited < kOthersTimeoutMs; ++waited) {
    file = fopen(path_of(name, ".md"), "rb");
    if (file == NULL) (void)poll(NULL, 0, 1);
  }
  CHECK(file != NULL);
  if (file == NULL) return;
  const size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  char* reported = NULL;
  OK(nixl_capi_load_remote_md(side->agent, data, size, &reported));
  free(reported);
}

static bool has_parameter(nixl_capi_agent_t agent, nixl_capi_backend_t backend, const char* name) {
  nixl_capi_mem_list_t mems = NULL;
  nixl_capi_params_t params = NULL;
  nixl_capi_param_iter_t all = NULL;
  const char *key = NULL, *value = NULL;
  bool more = true, found = false;
  OK(nixl_capi_get_backend_params(agent, backend, &mems, &params));
  OK(nixl_capi_params_create_iterator(params, &all));
  while (nixl_capi_params_iterator_next(all, &key, &value, &more) == NIXL_CAPI_SUCCESS && more)
    found = found || strcmp(key, name) == 0;
  OK(nixl_capi_params_destroy_iterator(all));
  OK(nixl_capi_destroy_params(params));
  OK(nixl_capi_destroy_mem_list(mems));
  return found;
}

static void own(struct side* side) {
  memset(bytes, kOwners, kBytes);
  register_bytes(side, bytes, kBytes);
  leave_metadata(side, "owner");
  find_metadata(side, "reader");
  nixl_capi_notif_map_t heard = NULL;
  OK(nixl_capi_create_notif_map(&heard));
  CHECK(wait_notifications(side->agent, heard, "reader", 1));
  OK(nixl_capi_destroy_notif_map(heard));
}

static uintptr_t address_of_owner(void) {
  FILE* file = fopen(path_of("owner", ".address"), "r");
  unsigned long long address = 0;
  CHECK(file != NULL && fscanf(file, "%llu", &address) == 1);
  if (file != NULL) fclose(file);
  return (uintptr_t)address;
}

static void report_address(void) {
  FILE* file = fopen(path_of("owner", ".address"), "w");
  CHECK(file != NULL && fprintf(file, "%llu", (unsigned long long)(uintptr_t)bytes) > 0);
  if (file != NULL) fclose(file);
}

static void read_all(struct side* side) {
  register_bytes(side, bytes, kBytes);
  leave_metadata(side, "reader");
  find_metadata(side, "owner");
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, bytes, kBytes);
  nixl_capi_xfer_dlist_t remote =
      xfer_list(NIXL_CAPI_MEM_DRAM, (const void*)address_of_owner(), kBytes);
  nixl_capi_xfer_req_t request = NULL;
  OK(nixl_capi_opt_args_set_notif_msg(side->args, "taken", 5));
  OK(nixl_capi_opt_args_set_has_notif(side->args, true));
  OK(nixl_capi_create_xfer_req(side->agent, NIXL_CAPI_XFER_OP_READ, local, remote, "owner",
                               &request, side->args));
  CHECK(nixl_capi_post_xfer_req(side->agent, request, side->args) >= 0);
  OK(status_at_end(side->agent, request));
  size_t right = 0;
  for (size_t i = 0; i < kBytes; ++i) right += bytes[i] == kOwners;
  CHECK(right == kBytes);
  nixl_capi_backend_t moved_by = NULL;
  OK(nixl_capi_query_xfer_backend(side->agent, request, &moved_by));
  CHECK(has_parameter(side->agent, moved_by, "heartbeat_ms")); /* only UCX has it */
  OK(nixl_capi_destroy_backend(moved_by));
  drop(side->agent, request);
  OK(nixl_capi_destroy_xfer_dlist(local));
  OK(nixl_capi_destroy_xfer_dlist(remote));
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "pair owner|reader FOLDER\n"), 2;
  folder = argv[2];
  const bool owns = strcmp(argv[1], "owner") == 0;
  if (owns) report_address();
  struct side side = open_side(argv[1], "UCX");
  owns ? own(&side) : read_all(&side);
  close_side(&side);
  return failed_checks != 0;
}
