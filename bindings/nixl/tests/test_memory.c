/* Registrations by value, questions to backends, views. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "agents.h"

static char memory[8192];

static bool is_registered(nixl_capi_agent_t agent, size_t offset, size_t size) {
  nixl_capi_xfer_dlist_t list = xfer_list(NIXL_CAPI_MEM_DRAM, memory + offset, size);
  nixl_capi_xfer_dlist_handle_t handle = NULL;
  const nixl_capi_status_t status = nixl_capi_prep_xfer_dlist(agent, "", list, &handle, NULL);
  if (status == NIXL_CAPI_SUCCESS) OK(nixl_capi_release_xfer_dlist_handle(agent, handle));
  OK(nixl_capi_destroy_xfer_dlist(list));
  return status == NIXL_CAPI_SUCCESS;
}

static void the_same_memory_is_registered_twice(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, memory, 4096);
  OK(nixl_capi_register_mem(side.agent, list, side.args));
  OK(nixl_capi_register_mem(side.agent, list, NULL));
  OK(nixl_capi_deregister_mem(side.agent, list, NULL));
  CHECK(is_registered(side.agent, 0, 4096));
  OK(nixl_capi_deregister_mem(side.agent, list, side.args));
  CHECK(!is_registered(side.agent, 0, 4096));
  NOT_FOUND(nixl_capi_deregister_mem(side.agent, list, NULL));
  NOT_FOUND(nixl_capi_deregister_mem(side.agent, list, side.args));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
}

static void a_list_is_registered_as_a_whole(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t good = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, memory + 4096, 16);
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 16, 0, NULL, 0)); /* null */
  INVALID(nixl_capi_register_mem(side.agent, list, side.args));
  CHECK(!is_registered(side.agent, 4096, 16));
  OK(nixl_capi_reg_dlist_rem_desc(list, 1));
  OK(nixl_capi_reg_dlist_add_desc(list, (uintptr_t)memory, 16, 0, NULL, 0));
  OK(nixl_capi_register_mem(side.agent, good, NULL));
  /* Only one of the two is there, so none of them is taken back. */
  NOT_FOUND(nixl_capi_deregister_mem(side.agent, list, NULL));
  CHECK(is_registered(side.agent, 0, 16));
  OK(nixl_capi_destroy_reg_dlist(good));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
}

static void no_bytes_are_registered_and_taken_back(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, memory, 0);
  OK(nixl_capi_register_mem(side.agent, list, side.args));
  OK(nixl_capi_deregister_mem(side.agent, list, side.args));
  OK(nixl_capi_reg_dlist_add_desc(list, (uintptr_t)memory, 16, 0, NULL, 0));
  OK(nixl_capi_register_mem(side.agent, list, NULL));
  CHECK(is_registered(side.agent, 0, 16));
  OK(nixl_capi_deregister_mem(side.agent, list, NULL));
  CHECK(!is_registered(side.agent, 0, 16));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
}

static void memory_that_no_backend_takes_is_not_registered(void) {
  nixl_capi_agent_t bare = NULL;
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t dram = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_reg_dlist_t object = reg_list(NIXL_CAPI_MEM_OBJECT, NULL, 16);
  nixl_capi_reg_dlist_t unknown = reg_list(NIXL_CAPI_MEM_UNKNOWN, memory, 16);
  OK(nixl_capi_create_agent("bare", &bare));
  NOT_FOUND(nixl_capi_register_mem(bare, dram, NULL));
  NOT_FOUND(nixl_capi_register_mem(bare, dram, side.args)); /* it has no such backend */
  NOT_FOUND(nixl_capi_register_mem(side.agent, object, NULL));
  NOT_FOUND(nixl_capi_register_mem(side.agent, object, side.args));
  INVALID(nixl_capi_register_mem(side.agent, unknown, NULL));
  INVALID(nixl_capi_deregister_mem(side.agent, unknown, NULL));
  INVALID(nixl_capi_register_mem(NULL, dram, NULL));
  INVALID(nixl_capi_register_mem(side.agent, NULL, NULL));
  INVALID(nixl_capi_deregister_mem(NULL, dram, NULL));
  INVALID(nixl_capi_deregister_mem(side.agent, NULL, NULL));
  OK(nixl_capi_destroy_reg_dlist(dram));
  OK(nixl_capi_destroy_reg_dlist(object));
  OK(nixl_capi_destroy_reg_dlist(unknown));
  OK(nixl_capi_destroy_agent(bare));
  close_side(&side);
}

static nixl_capi_reg_dlist_t file_list(void) {
  nixl_capi_reg_dlist_t list = NULL;
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_FILE, &list));
  return list;
}

static void add_path(nixl_capi_reg_dlist_t list, const char* path) {
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 4096, 0, path, strlen(path)));
}

static void files_are_asked_about(void) {
  char path[] = "capi_test_XXXXXX";
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && ftruncate(fd, 1234) == 0);
  struct side side = open_side("alone", "POSIX");
  nixl_capi_query_resp_list_t answers = NULL;
  nixl_capi_reg_dlist_t list = file_list();
  size_t count = 9;
  OK(nixl_capi_create_query_resp_list(&answers));
  OK(nixl_capi_query_mem(side.agent, list, answers, side.args));
  OK(nixl_capi_query_resp_list_size(answers, &count));
  CHECK(count == 0);

  add_path(list, path);
  add_path(list, "capi_test_that_is_not_there");
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 4096, (uint64_t)fd, NULL, 0));
  OK(nixl_capi_query_mem(side.agent, list, answers, side.args));
  OK(nixl_capi_query_resp_list_size(answers, &count));
  CHECK(count == 3);
  static const bool kThere[] = {true, false, true};
  for (size_t i = 0; i < 3; ++i) {
    bool there = !kThere[i];
    nixl_capi_params_t params = NULL;
    OK(nixl_capi_query_resp_list_has_value(answers, i, &there));
    CHECK(there == kThere[i]);
    CHECK_IS(nixl_capi_query_resp_list_get_params(answers, i, &params),
             kThere[i] ? NIXL_CAPI_SUCCESS : NIXL_CAPI_ERROR_INVALID_PARAM);
    if (params != NULL) OK(nixl_capi_destroy_params(params));
  }
  bool there = false;
  nixl_capi_params_t params = NULL;
  INVALID(nixl_capi_query_resp_list_has_value(answers, 3, &there));
  INVALID(nixl_capi_query_resp_list_get_params(answers, 3, &params));
  INVALID(nixl_capi_query_mem(side.agent, list, answers, NULL));
  OK(nixl_capi_opt_args_add_backend(side.args, side.backend));
  INVALID(nixl_capi_query_mem(side.agent, list, answers, side.args)); /* two */
  OK(nixl_capi_query_resp_list_size(answers, &count));
  CHECK(count == 3); /* as they were */
  OK(nixl_capi_destroy_query_resp_list(answers));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
  close(fd);
  unlink(path);
}

static void questions_refuse_nulls(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_query_resp_list_t answers = NULL;
  nixl_capi_params_t params = NULL;
  size_t count;
  bool flag;
  INVALID(nixl_capi_create_query_resp_list(NULL));
  INVALID(nixl_capi_destroy_query_resp_list(NULL));
  OK(nixl_capi_create_query_resp_list(&answers));
  BACKEND(nixl_capi_query_mem(side.agent, list, answers, side.args)); /* not its business */
  INVALID(nixl_capi_query_mem(NULL, list, answers, side.args));
  INVALID(nixl_capi_query_mem(side.agent, NULL, answers, side.args));
  INVALID(nixl_capi_query_mem(side.agent, list, NULL, side.args));
  INVALID(nixl_capi_query_resp_list_size(NULL, &count));
  INVALID(nixl_capi_query_resp_list_size(answers, NULL));
  INVALID(nixl_capi_query_resp_list_has_value(NULL, 0, &flag));
  INVALID(nixl_capi_query_resp_list_has_value(answers, 0, NULL));
  INVALID(nixl_capi_query_resp_list_get_params(NULL, 0, &params));
  INVALID(nixl_capi_query_resp_list_get_params(answers, 0, NULL));
  OK(nixl_capi_destroy_query_resp_list(answers));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
}

static void views_are_refused(void) {
  struct side side = open_side("alone", peer_plugin());
  struct side peer = open_side("peer", peer_plugin());
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_remote_dlist_t remote = NULL;
  nixl_capi_mem_view_t view = NULL;
  NOT_FOUND(nixl_capi_prep_mem_view_local(side.agent, local, &view, side.args));
  register_bytes(&side, memory, 4096);
  BACKEND(nixl_capi_prep_mem_view_local(side.agent, local, &view, NULL));
  OK(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_VRAM, &remote));
  OK(nixl_capi_remote_dlist_add_desc(remote, 4096, 16, 0, NULL));
  NOT_FOUND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, NULL)); /* only a hole */
  OK(nixl_capi_remote_dlist_add_desc(remote, 4096, 16, 0, "peer"));
  NOT_FOUND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, side.args));
  introduce(&side, &peer);
  BACKEND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, side.args));
  INVALID(nixl_capi_prep_mem_view_local(NULL, local, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_local(side.agent, NULL, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_local(side.agent, local, NULL, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(NULL, remote, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(side.agent, NULL, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(side.agent, remote, NULL, NULL));
  CHECK(view == NULL);
  INVALID(nixl_capi_release_mem_view(side.agent, NULL));
  INVALID(nixl_capi_release_mem_view(NULL, NULL));
  OK(nixl_capi_destroy_remote_dlist(remote));
  OK(nixl_capi_destroy_xfer_dlist(local));
  close_side(&peer);
  close_side(&side);
}

const struct test_case memory_cases[] = {
    {"memory.the_same_memory_is_registered_twice", the_same_memory_is_registered_twice},
    {"memory.a_list_is_registered_as_a_whole", a_list_is_registered_as_a_whole},
    {"memory.no_bytes_are_registered_and_taken_back", no_bytes_are_registered_and_taken_back},
    {"memory.memory_that_no_backend_takes_is_not_registered",
     memory_that_no_backend_takes_is_not_registered},
    {"memory.files_are_asked_about", files_are_asked_about},
    {"memory.questions_refuse_nulls", questions_refuse_nulls},
    {"memory.views_are_refused", views_are_refused},
    {NULL, NULL}};
