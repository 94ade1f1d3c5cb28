/* Metadata by value, and to and from an address. */
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents.h"

static char memory[4096];

struct blob {
  void* data;
  size_t size;
};

static struct blob metadata_of(nixl_capi_agent_t agent) {
  struct blob blob = {NULL, 0};
  OK(nixl_capi_get_local_md(agent, &blob.data, &blob.size));
  CHECK(blob.data != NULL && blob.size > 0);
  return blob;
}

static void agents_learn_of_each_other(void) {
  struct side one = open_side("one", peer_plugin());
  struct side two = open_side("two", peer_plugin());
  struct blob before = metadata_of(two.agent);
  char* name = NULL;
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", NULL));
  NOT_FOUND(nixl_capi_agent_make_connection(one.agent, "two", NULL));
  OK(nixl_capi_load_remote_md(one.agent, before.data, before.size, &name));
  CHECK(name != NULL && strcmp(name, "two") == 0);
  free(name);
  OK(nixl_capi_check_remote_md(one.agent, "two", NULL));
  OK(nixl_capi_agent_make_connection(one.agent, "two", one.args));

  nixl_capi_xfer_dlist_t list = xfer_list(NIXL_CAPI_MEM_DRAM, memory, sizeof memory);
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", list));
  register_bytes(&two, memory, sizeof memory);
  struct blob after = metadata_of(two.agent);
  CHECK(after.size > before.size);
  OK(nixl_capi_load_remote_md(one.agent, after.data, after.size, &name));
  free(name);
  OK(nixl_capi_check_remote_md(one.agent, "two", list));
  OK(nixl_capi_invalidate_remote_md(one.agent, "two"));
  NOT_FOUND(nixl_capi_invalidate_remote_md(one.agent, "two"));
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", NULL));
  OK(nixl_capi_destroy_xfer_dlist(list));
  free(before.data);
  free(after.data);
  close_side(&two);
  close_side(&one);
}

static void a_part_of_the_memory_is_reported(void) {
  struct side one = open_side("one", peer_plugin());
  struct side two = open_side("two", peer_plugin());
  nixl_capi_reg_dlist_t none = NULL;
  nixl_capi_reg_dlist_t some = reg_list(NIXL_CAPI_MEM_DRAM, memory, 1024);
  nixl_capi_xfer_dlist_t reported = xfer_list(NIXL_CAPI_MEM_DRAM, memory, 1024);
  nixl_capi_xfer_dlist_t unreported = xfer_list(NIXL_CAPI_MEM_DRAM, memory + 1024, 1024);
  struct blob blob = {NULL, 0};
  char* name = NULL;
  NOT_FOUND(nixl_capi_get_local_partial_md(two.agent, some, &blob.data, &blob.size, NULL));
  CHECK(blob.data == NULL);
  register_bytes(&two, memory, 1024);
  register_bytes(&two, memory + 1024, 1024);
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &none));
  OK(nixl_capi_get_local_partial_md(two.agent, none, &blob.data, &blob.size, two.args));
  OK(nixl_capi_load_remote_md(one.agent, blob.data, blob.size, &name));
  free(name);
  free(blob.data);
  OK(nixl_capi_check_remote_md(one.agent, "two", NULL));
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", reported));
  OK(nixl_capi_get_local_partial_md(two.agent, some, &blob.data, &blob.size, NULL));
  OK(nixl_capi_load_remote_md(one.agent, blob.data, blob.size, &name));
  free(name);
  free(blob.data);
  OK(nixl_capi_check_remote_md(one.agent, "two", reported));
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", unreported));
  OK(nixl_capi_destroy_reg_dlist(none));
  OK(nixl_capi_destroy_reg_dlist(some));
  OK(nixl_capi_destroy_xfer_dlist(reported));
  OK(nixl_capi_destroy_xfer_dlist(unreported));
  close_side(&two);
  close_side(&one);
}

static void what_is_no_metadata_is_refused(void) {
  struct side one = open_side("one", peer_plugin());
  struct side two = open_side("two", peer_plugin());
  struct blob blob = metadata_of(two.agent);
  struct blob own = metadata_of(one.agent);
  char* name = NULL;
  BACKEND(nixl_capi_load_remote_md(one.agent, "rubbish", 7, &name));
  BACKEND(nixl_capi_load_remote_md(one.agent, blob.data, blob.size - 1, &name));
  ((unsigned char*)blob.data)[blob.size / 2] ^= 1;
  BACKEND(nixl_capi_load_remote_md(one.agent, blob.data, blob.size, &name));
  INVALID(nixl_capi_load_remote_md(one.agent, own.data, own.size, &name));
  INVALID(nixl_capi_load_remote_md(one.agent, own.data, 0, &name));
  INVALID(nixl_capi_load_remote_md(one.agent, NULL, 1, &name));
  INVALID(nixl_capi_load_remote_md(one.agent, own.data, own.size, NULL));
  INVALID(nixl_capi_load_remote_md(NULL, own.data, own.size, &name));
  CHECK(name == NULL);
  NOT_FOUND(nixl_capi_check_remote_md(one.agent, "two", NULL));
  free(blob.data);
  free(own.data);
  close_side(&two);
  close_side(&one);
}

static void metadata_needs_a_backend_that_reaches_peers(void) {
  struct side side = open_side("alone", "POSIX");
  nixl_capi_reg_dlist_t none = NULL;
  struct blob blob = {NULL, 0};
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &none));
  INVALID(nixl_capi_get_local_md(side.agent, &blob.data, &blob.size));
  INVALID(nixl_capi_get_local_partial_md(side.agent, none, &blob.data, &blob.size, NULL));
  CHECK(blob.data == NULL && blob.size == 0);
  OK(nixl_capi_destroy_reg_dlist(none));
  close_side(&side);
}

static void metadata_refuses_nulls(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t none = NULL;
  nixl_capi_xfer_dlist_t unknown = NULL;
  struct blob blob = {NULL, 0};
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_UNKNOWN, &none));
  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_UNKNOWN, &unknown));
  INVALID(nixl_capi_get_local_md(NULL, &blob.data, &blob.size));
  INVALID(nixl_capi_get_local_md(side.agent, NULL, &blob.size));
  INVALID(nixl_capi_get_local_md(side.agent, &blob.data, NULL));
  INVALID(nixl_capi_get_local_partial_md(NULL, none, &blob.data, &blob.size, NULL));
  INVALID(nixl_capi_get_local_partial_md(side.agent, NULL, &blob.data, &blob.size, NULL));
  INVALID(nixl_capi_get_local_partial_md(side.agent, none, NULL, &blob.size, NULL));
  INVALID(nixl_capi_get_local_partial_md(side.agent, none, &blob.data, NULL, NULL));
  INVALID(nixl_capi_get_local_partial_md(side.agent, none, &blob.data, &blob.size, NULL));
  INVALID(nixl_capi_check_remote_md(NULL, "alone", NULL));
  INVALID(nixl_capi_check_remote_md(side.agent, NULL, NULL));
  INVALID(nixl_capi_check_remote_md(side.agent, "alone", unknown));
  INVALID(nixl_capi_invalidate_remote_md(NULL, "alone"));
  INVALID(nixl_capi_invalidate_remote_md(side.agent, NULL));
  INVALID(nixl_capi_agent_make_connection(NULL, "alone", NULL));
  INVALID(nixl_capi_agent_make_connection(side.agent, NULL, NULL));
  OK(nixl_capi_destroy_reg_dlist(none));
  OK(nixl_capi_destroy_xfer_dlist(unknown));
  close_side(&side);
}

static void metadata_without_a_place_to_go_is_refused(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t none = NULL;
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, &none));
  INVALID(nixl_capi_send_local_md(side.agent, NULL));
  INVALID(nixl_capi_send_local_md(side.agent, side.args));
  INVALID(nixl_capi_send_local_md(NULL, side.args));
  INVALID(nixl_capi_send_local_partial_md(side.agent, none, side.args));
  INVALID(nixl_capi_send_local_partial_md(side.agent, NULL, side.args));
  INVALID(nixl_capi_send_local_partial_md(NULL, none, side.args));
  INVALID(nixl_capi_fetch_remote_md(side.agent, "peer", NULL));
  INVALID(nixl_capi_fetch_remote_md(side.agent, NULL, NULL));
  INVALID(nixl_capi_fetch_remote_md(NULL, "peer", NULL));
  INVALID(nixl_capi_invalidate_local_md(side.agent, NULL));
  INVALID(nixl_capi_invalidate_local_md(NULL, NULL));
  OK(nixl_capi_destroy_reg_dlist(none));
  close_side(&side);
}

/* A free port, for the moment. */
static uint16_t free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(socket_, (struct sockaddr*)&address, size) == 0);
  CHECK(getsockname(socket_, (struct sockaddr*)&address, &size) == 0);
  close(socket_);
  return ntohs(address.sin_port);
}

static bool learns_of(nixl_capi_agent_t agent, const char* peer, bool wanted) {
  for (int waited = 0; waited < 10000; ++waited) {
    if ((nixl_capi_check_remote_md(agent, peer, NULL) == NIXL_CAPI_SUCCESS) == wanted) return true;
    (void)poll(NULL, 0, 1);
  }
  return false;
}

static void metadata_travels_to_and_from_an_address(void) {
  const uint16_t port = free_port();
  const nixl_capi_agent_config_t config = {
      .enable_prog_thread = true, .enable_listen_thread = true, .listen_port = port};
  struct side here = open_side("here", peer_plugin());
  struct side there = {NULL, NULL, NULL};
  nixl_capi_agent_t third = NULL;
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, memory, sizeof memory);
  OK(nixl_capi_create_configured_agent("there", &config, &there.agent));
  OK(nixl_capi_create_opt_args(&there.args));
  there.backend = add_backend(there.agent, peer_plugin());
  BACKEND(nixl_capi_create_configured_agent("third", &config, &third)); /* the port is taken */
  OK(nixl_capi_opt_args_set_ip_addr(here.args, "127.0.0.1"));
  OK(nixl_capi_opt_args_set_port(here.args, port));

  OK(nixl_capi_fetch_remote_md(here.agent, "there", here.args));
  CHECK(learns_of(here.agent, "there", true));
  OK(nixl_capi_send_local_md(here.agent, here.args));
  CHECK(learns_of(there.agent, "here", true));
  OK(nixl_capi_invalidate_local_md(here.agent, here.args));
  CHECK(learns_of(there.agent, "here", false));
  NOT_FOUND(nixl_capi_send_local_partial_md(here.agent, list, here.args)); /* not registered */
  register_bytes(&here, memory, sizeof memory);
  OK(nixl_capi_send_local_partial_md(here.agent, list, here.args));
  CHECK(learns_of(there.agent, "here", true));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&there);
  /* Nobody listens any more: accepted all the same, and the log reports. */
  OK(nixl_capi_send_local_md(here.agent, here.args));
  OK(nixl_capi_fetch_remote_md(here.agent, "there", here.args));
  close_side(&here);
}

const struct test_case metadata_cases[] = {
    {"metadata.agents_learn_of_each_other", agents_learn_of_each_other},
    {"metadata.a_part_of_the_memory_is_reported", a_part_of_the_memory_is_reported},
    {"metadata.what_is_no_metadata_is_refused", what_is_no_metadata_is_refused},
    {"metadata.metadata_needs_a_backend_that_reaches_peers",
     metadata_needs_a_backend_that_reaches_peers},
    {"metadata.metadata_refuses_nulls", metadata_refuses_nulls},
    {"metadata.metadata_travels_to_and_from_an_address", metadata_travels_to_and_from_an_address},
    {"metadata.metadata_without_a_place_to_go_is_refused",
     metadata_without_a_place_to_go_is_refused},
    {NULL, NULL}};
