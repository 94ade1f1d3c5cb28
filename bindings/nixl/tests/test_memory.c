/* Registrations by value, questions to backends, views. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

enum { kPieceEntry = 64, kPieceTable = 1025 * kPieceEntry };

/* The piece table of this process's one agent: docs/formats/shm.md. */
static uint64_t* piece_table(void) {
  for (int fd = 0; fd < 256; ++fd) {
    char path[32], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) < 0 || strstr(name, "towpath-shm-pieces") == NULL)
      continue;
    void* mapped = mmap(NULL, kPieceTable, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mapped != MAP_FAILED ? mapped : NULL;
  }
  return NULL;
}

static uint64_t own_start_time(void) {
  char text[1024] = "";
  FILE* file = fopen("/proc/self/stat", "r");
  CHECK(file != NULL && fread(text, 1, sizeof text - 1, file) > 0);
  if (file != NULL) fclose(file);
  const char* at = strrchr(text, ')');
  for (int field = 2; at != NULL && field < 22; ++field) at = strchr(at + 1, ' ');
  CHECK(at != NULL);
  return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* A peer stands still in the middle of a piece, as far as the agent can see. */
static void a_list_whose_bytes_may_still_move_is_named_again(void) {
  if (strcmp(peer_plugin(), "shm") != 0) return;
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_reg_dlist_t one = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_reg_dlist_t both = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  uint64_t* table = piece_table();
  CHECK(table != NULL);
  if (table == NULL) return;
  uint64_t* last = table + (kPieceTable - kPieceEntry) / sizeof *table;
  OK(nixl_capi_reg_dlist_add_desc(both, (uintptr_t)memory + 4096, 16, 0, NULL, 0));
  OK(nixl_capi_register_mem(side.agent, one, NULL));
  OK(nixl_capi_register_mem(side.agent, both, NULL));
  last[0] = (uint64_t)getpid() << 40 | own_start_time();
  last[1] = 1;
  table[0] = kPieceTable / kPieceEntry - 1;
  BACKEND(nixl_capi_deregister_mem(side.agent, both, NULL)); /* the first is released: `one` */
  last[1] = 2;
  OK(nixl_capi_deregister_mem(side.agent, both, NULL));
  OK(nixl_capi_deregister_mem(side.agent, one, NULL));
  NOT_FOUND(nixl_capi_deregister_mem(side.agent, one, NULL));
  munmap(table, kPieceTable);
  OK(nixl_capi_destroy_reg_dlist(one));
  OK(nixl_capi_destroy_reg_dlist(both));
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

static void what_backends_have_in_part_is_taken_back_from_all(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_backend_t posix = add_backend(side.agent, "posix");
  nixl_capi_reg_dlist_t first = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_reg_dlist_t second = reg_list(NIXL_CAPI_MEM_DRAM, memory + 4096, 16);
  nixl_capi_reg_dlist_t both = reg_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  OK(nixl_capi_reg_dlist_add_desc(both, (uintptr_t)memory + 4096, 16, 0, NULL, 0));
  OK(nixl_capi_register_mem(side.agent, first, NULL));
  OK(nixl_capi_register_mem(side.agent, second, side.args)); /* not with posix */
  OK(nixl_capi_deregister_mem(side.agent, both, NULL));
  CHECK(!is_registered(side.agent, 0, 16) && !is_registered(side.agent, 4096, 16));
  NOT_FOUND(nixl_capi_deregister_mem(side.agent, first, NULL));
  OK(nixl_capi_destroy_reg_dlist(both));
  OK(nixl_capi_destroy_reg_dlist(second));
  OK(nixl_capi_destroy_reg_dlist(first));
  OK(nixl_capi_destroy_backend(posix));
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
  BACKEND(nixl_capi_register_mem(side.agent, object, side.args)); /* it is asked, and refuses */
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

enum { kPiece = 64 };

/* Agents "alone", "left" and "right", each with memory; the first knows the others. */
struct three {
  struct side alone, left, right;
};

static char mine[2 * kPiece], of_left[2 * kPiece], of_right[2 * kPiece];

static struct three open_three(void) {
  struct three three = {open_side("alone", peer_plugin()), open_side("left", peer_plugin()),
                        open_side("right", peer_plugin())};
  register_bytes(&three.alone, mine, sizeof mine);
  register_bytes(&three.left, of_left, sizeof of_left);
  register_bytes(&three.right, of_right, sizeof of_right);
  introduce(&three.alone, &three.left);
  introduce(&three.alone, &three.right);
  for (int i = 0; i < (int)sizeof mine; ++i) mine[i] = (char)(i + 1);
  memset(of_left, 0, sizeof of_left);
  memset(of_right, 0, sizeof of_right);
  return three;
}

static void close_three(struct three* three) {
  close_side(&three->right);
  close_side(&three->left);
  close_side(&three->alone);
}

static nixl_capi_mem_view_t local_view(struct three* three) {
  nixl_capi_xfer_dlist_t list = piece_list(mine, kPiece, 2);
  nixl_capi_mem_view_t view = NULL;
  OK(nixl_capi_prep_mem_view_local(three->alone.agent, list, &view, three->alone.args));
  OK(nixl_capi_destroy_xfer_dlist(list));
  return view;
}

/* A hole, the second piece of "right", both of "left". */
static nixl_capi_mem_view_t remote_view(struct three* three) {
  nixl_capi_remote_dlist_t list = NULL;
  nixl_capi_mem_view_t view = NULL;
  OK(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, &list));
  OK(nixl_capi_remote_dlist_add_desc(list, 0, 0, 0, NULL));
  OK(nixl_capi_remote_dlist_add_desc(list, (uintptr_t)of_right + kPiece, kPiece, 0, "right"));
  OK(nixl_capi_remote_dlist_add_desc(list, (uintptr_t)of_left, kPiece, 0, "left"));
  OK(nixl_capi_remote_dlist_add_desc(list, (uintptr_t)of_left + kPiece, kPiece, 0, "left"));
  OK(nixl_capi_prep_mem_view_remote(three->alone.agent, list, &view, NULL));
  OK(nixl_capi_destroy_remote_dlist(list));
  return view;
}

static nixl_capi_status_t make_write(struct three* three, nixl_capi_mem_view_t local,
                                     const int* here, nixl_capi_mem_view_t remote, const int* there,
                                     size_t count, nixl_capi_xfer_req_t* made) {
  return nixl_capi_make_xfer_req(three->alone.agent, NIXL_CAPI_XFER_OP_WRITE,
                                 (nixl_capi_xfer_dlist_handle_t)local, here, count,
                                 (nixl_capi_xfer_dlist_handle_t)remote, there, count, made, NULL);
}

static void views_are_sides_of_requests(void) {
  static const int kBoth[] = {0, 1}, kSecond[] = {1}, kLeft[] = {3, 2}, kRight[] = {1};
  struct three three = open_three();
  nixl_capi_agent_t agent = three.alone.agent;
  nixl_capi_mem_view_t local = local_view(&three), remote = remote_view(&three);
  nixl_capi_xfer_req_t left = NULL, right = NULL;
  OK(make_write(&three, local, kBoth, remote, kLeft, 2, &left));
  OK(make_write(&three, local, kSecond, remote, kRight, 1, &right));
  OK(nixl_capi_release_mem_view(agent, local)); /* the requests go on without them */
  OK(nixl_capi_release_mem_view(agent, remote));
  CHECK(nixl_capi_post_xfer_req(agent, left, NULL) >= 0);
  CHECK(nixl_capi_post_xfer_req(agent, right, NULL) >= 0);
  CHECK_IS(status_at_end(agent, left), NIXL_CAPI_SUCCESS);
  CHECK_IS(status_at_end(agent, right), NIXL_CAPI_SUCCESS);
  CHECK(memcmp(of_left + kPiece, mine, kPiece) == 0 && memcmp(of_left, mine + kPiece, kPiece) == 0);
  CHECK(memcmp(of_right + kPiece, mine + kPiece, kPiece) == 0 && of_right[1] == 0);
  drop(agent, left);
  drop(agent, right);
  close_three(&three);
}

static void elements_that_a_view_has_not_are_refused(void) {
  static const int kGood[] = {0, 1}, kHole[] = {2, 0}, kFar[] = {4, 2}, kNegative[] = {-1, 2},
                   kTwoPeers[] = {3, 1};
  struct three three = open_three();
  nixl_capi_mem_view_t local = local_view(&three), remote = remote_view(&three);
  nixl_capi_xfer_req_t none = NULL;
  INVALID(make_write(&three, local, kGood, remote, kHole, 2, &none));
  INVALID(make_write(&three, local, kGood, remote, kFar, 2, &none));
  INVALID(make_write(&three, local, kGood, remote, kNegative, 2, &none));
  INVALID(make_write(&three, local, kGood, remote, kTwoPeers, 2, &none));
  INVALID(make_write(&three, local, kFar, remote, kGood, 2, &none));
  INVALID(make_write(&three, local, kGood, remote, kGood, 0, &none));
  INVALID(make_write(&three, remote, kTwoPeers + 1, local, kGood, 1, &none)); /* sides swapped */
  CHECK(none == NULL);
  OK(nixl_capi_release_mem_view(three.alone.agent, local));
  OK(nixl_capi_release_mem_view(three.alone.agent, remote));
  close_three(&three);
}

static void views_of_nothing_that_can_be_reached_are_refused(void) {
  struct side side = open_side("alone", peer_plugin());
  struct side peer = open_side("peer", peer_plugin());
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, memory, 16);
  nixl_capi_xfer_dlist_t gpu = xfer_list(NIXL_CAPI_MEM_VRAM, memory, 16);
  nixl_capi_remote_dlist_t remote = NULL, gpus = NULL;
  nixl_capi_mem_view_t view = NULL;
  NOT_FOUND(nixl_capi_prep_mem_view_local(side.agent, local, &view, side.args));
  BACKEND(nixl_capi_prep_mem_view_local(side.agent, gpu, &view, NULL));
  OK(nixl_capi_xfer_dlist_clear(local));
  NOT_FOUND(nixl_capi_prep_mem_view_local(side.agent, local, &view, NULL)); /* no elements */
  OK(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, &remote));
  OK(nixl_capi_remote_dlist_add_desc(remote, 4096, 16, 0, NULL));
  NOT_FOUND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, NULL)); /* only a hole */
  OK(nixl_capi_remote_dlist_add_desc(remote, 4096, 16, 0, "peer"));
  NOT_FOUND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, side.args));
  introduce(&side, &peer);
  NOT_FOUND(nixl_capi_prep_mem_view_remote(side.agent, remote, &view, side.args));
  OK(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_VRAM, &gpus));
  OK(nixl_capi_remote_dlist_add_desc(gpus, 4096, 16, 0, "peer"));
  BACKEND(nixl_capi_prep_mem_view_remote(side.agent, gpus, &view, side.args));
  INVALID(nixl_capi_prep_mem_view_local(NULL, local, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_local(side.agent, NULL, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_local(side.agent, local, NULL, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(NULL, remote, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(side.agent, NULL, &view, NULL));
  INVALID(nixl_capi_prep_mem_view_remote(side.agent, remote, NULL, NULL));
  CHECK(view == NULL);
  INVALID(nixl_capi_release_mem_view(side.agent, NULL));
  INVALID(nixl_capi_release_mem_view(NULL, NULL));
  OK(nixl_capi_destroy_remote_dlist(gpus));
  OK(nixl_capi_destroy_remote_dlist(remote));
  OK(nixl_capi_destroy_xfer_dlist(gpu));
  OK(nixl_capi_destroy_xfer_dlist(local));
  close_side(&peer);
  close_side(&side);
}

const struct test_case memory_cases[] = {
    {"memory.the_same_memory_is_registered_twice", the_same_memory_is_registered_twice},
    {"memory.a_list_whose_bytes_may_still_move_is_named_again",
     a_list_whose_bytes_may_still_move_is_named_again},
    {"memory.a_list_is_registered_as_a_whole", a_list_is_registered_as_a_whole},
    {"memory.what_backends_have_in_part_is_taken_back_from_all",
     what_backends_have_in_part_is_taken_back_from_all},
    {"memory.no_bytes_are_registered_and_taken_back", no_bytes_are_registered_and_taken_back},
    {"memory.memory_that_no_backend_takes_is_not_registered",
     memory_that_no_backend_takes_is_not_registered},
    {"memory.files_are_asked_about", files_are_asked_about},
    {"memory.questions_refuse_nulls", questions_refuse_nulls},
    {"memory.views_are_sides_of_requests", views_are_sides_of_requests},
    {"memory.elements_that_a_view_has_not_are_refused", elements_that_a_view_has_not_are_refused},
    {"memory.views_of_nothing_that_can_be_reached_are_refused",
     views_of_nothing_that_can_be_reached_are_refused},
    {NULL, NULL}};
