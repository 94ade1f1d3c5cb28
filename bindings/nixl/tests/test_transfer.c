/* Transfers: between agents, to files, by index, and everything that can be wrong with them. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents.h"

enum { kPiece = 1024, kPieces = 8, kBytes = kPiece * kPieces };

static char mine[kBytes], theirs[kBytes];

/* Two agents that know each other's memory: all of `mine` and `theirs`. */
struct pair {
  struct side here, there;
  nixl_capi_xfer_dlist_t local, remote;
};

static struct pair open_pair(void) {
  struct pair pair = {.here = open_side("here", peer_plugin()),
                      .there = open_side("there", peer_plugin())};
  memset(mine, 1, kBytes);
  memset(theirs, 2, kBytes);
  register_bytes(&pair.here, mine, kBytes);
  register_bytes(&pair.there, theirs, kBytes);
  introduce(&pair.here, &pair.there);
  pair.local = piece_list(mine, kPiece, kPieces);
  pair.remote = piece_list(theirs, kPiece, kPieces);
  return pair;
}

static void close_pair(struct pair* pair) {
  OK(nixl_capi_destroy_xfer_dlist(pair->local));
  OK(nixl_capi_destroy_xfer_dlist(pair->remote));
  close_side(&pair->there);
  close_side(&pair->here);
}

static nixl_capi_xfer_req_t request(struct pair* pair, nixl_capi_xfer_op_t op) {
  nixl_capi_xfer_req_t made = NULL;
  OK(nixl_capi_create_xfer_req(pair->here.agent, op, pair->local, pair->remote, "there", &made,
                               NULL));
  return made;
}

static void run(nixl_capi_agent_t agent, nixl_capi_xfer_req_t made) {
  const int posted = nixl_capi_post_xfer_req(agent, made, NULL);
  CHECK(posted == NIXL_CAPI_SUCCESS || posted == NIXL_CAPI_IN_PROG);
  OK(status_at_end(agent, made));
}

static void bytes_are_written_and_read(void) {
  struct pair pair = open_pair();
  nixl_capi_xfer_req_t write = request(&pair, NIXL_CAPI_XFER_OP_WRITE);
  nixl_capi_xfer_req_t read = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(pair.here.agent, write);
  CHECK(memcmp(mine, theirs, kBytes) == 0);
  memset(theirs, 3, kBytes);
  run(pair.here.agent, read);
  CHECK(memcmp(mine, theirs, kBytes) == 0);
  memset(mine, 4, kBytes);
  run(pair.here.agent, write); /* again */
  CHECK(memcmp(mine, theirs, kBytes) == 0);
  drop(pair.here.agent, write);
  drop(pair.here.agent, read);
  close_pair(&pair);
}

static void an_agent_without_a_thread_moves_bytes_when_it_is_asked(void) {
  const nixl_capi_agent_config_t config = {.enable_prog_thread = false};
  struct side there = open_side("there", peer_plugin());
  nixl_capi_agent_t here = NULL;
  nixl_capi_xfer_req_t write = NULL;
  OK(nixl_capi_create_configured_agent("here", &config, &here));
  struct side self = {here, add_backend(here, peer_plugin()), there.args};
  memset(mine, 5, kBytes);
  register_bytes(&self, mine, kBytes);
  register_bytes(&there, theirs, kBytes);
  introduce(&self, &there);
  nixl_capi_xfer_dlist_t local = piece_list(mine, kPiece, kPieces);
  nixl_capi_xfer_dlist_t remote = piece_list(theirs, kPiece, kPieces);
  OK(nixl_capi_create_xfer_req(here, NIXL_CAPI_XFER_OP_WRITE, local, remote, "there", &write,
                               NULL));
  run(here, write);
  CHECK(memcmp(mine, theirs, kBytes) == 0);
  drop(here, write);
  OK(nixl_capi_destroy_xfer_dlist(local));
  OK(nixl_capi_destroy_xfer_dlist(remote));
  OK(nixl_capi_destroy_backend(self.backend));
  OK(nixl_capi_destroy_agent(here));
  close_side(&there);
}

struct handles {
  nixl_capi_xfer_dlist_handle_t local, remote;
};

static struct handles prepare(struct pair* pair) {
  struct handles made = {NULL, NULL};
  nixl_capi_agent_t agent = pair->here.agent;
  OK(nixl_capi_prep_xfer_dlist(agent, "", pair->local, &made.local, NULL));
  OK(nixl_capi_prep_xfer_dlist(agent, "there", pair->remote, &made.remote, pair->here.args));
  return made;
}

static void release(nixl_capi_agent_t agent, struct handles* made) {
  OK(nixl_capi_release_xfer_dlist_handle(agent, made->local));
  OK(nixl_capi_release_xfer_dlist_handle(agent, made->remote));
}

static void pieces_are_chosen_by_index(void) {
  static const int kEven[] = {0, 2}, kOdd[] = {7, 1};
  struct pair pair = open_pair();
  struct handles made = prepare(&pair);
  nixl_capi_xfer_req_t write = NULL;
  OK(nixl_capi_opt_args_set_skip_desc_merge(pair.here.args, true));
  OK(nixl_capi_make_xfer_req(pair.here.agent, NIXL_CAPI_XFER_OP_WRITE, made.local, kEven, 2,
                             made.remote, kOdd, 2, &write, pair.here.args));
  release(pair.here.agent, &made); /* the request goes on without them */
  mine[0] = 10;
  mine[2 * kPiece] = 12;
  run(pair.here.agent, write);
  CHECK(theirs[7 * kPiece] == 10 && theirs[1 * kPiece] == 12 && theirs[0] == 2);
  drop(pair.here.agent, write);
  close_pair(&pair);
}

static void selections_that_cannot_be_are_refused(void) {
  static const int kGood[] = {0, 1}, kFar[] = {0, 999}, kNegative[] = {0, -1}, kTwice[] = {1, 1};
  struct pair pair = open_pair();
  struct handles made = prepare(&pair);
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_dlist_t lengths = piece_list(theirs, 2 * kPiece, 2);
  nixl_capi_xfer_dlist_handle_t longer = NULL;
  nixl_capi_xfer_req_t none = NULL;
  const nixl_capi_xfer_op_t op = NIXL_CAPI_XFER_OP_WRITE;
  OK(nixl_capi_prep_xfer_dlist(agent, "there", lengths, &longer, NULL));
#define MAKE(local, li, n, remote, ri, m) \
  nixl_capi_make_xfer_req(agent, op, local, li, n, remote, ri, m, &none, NULL)
  INVALID(MAKE(made.local, kFar, 2, made.remote, kGood, 2));
  INVALID(MAKE(made.local, kGood, 2, made.remote, kFar, 2));
  INVALID(MAKE(made.local, kNegative, 2, made.remote, kGood, 2));
  INVALID(MAKE(made.local, kGood, 2, made.remote, kNegative, 2));
  INVALID(MAKE(made.local, kGood, 2, made.remote, kTwice, 2)); /* one target for two */
  INVALID(MAKE(made.local, kGood, 2, made.remote, kGood, 1));
  INVALID(MAKE(made.local, kGood, 0, made.remote, kGood, 0));
  INVALID(MAKE(made.local, kGood, 2, longer, kGood, 2));
  INVALID(MAKE(made.remote, kGood, 2, made.local, kGood, 2)); /* sides swapped */
  INVALID(MAKE(NULL, kGood, 2, made.remote, kGood, 2));
  INVALID(MAKE(made.local, NULL, 2, made.remote, kGood, 2));
  INVALID(MAKE(made.local, kGood, 2, NULL, kGood, 2));
  INVALID(MAKE(made.local, kGood, 2, made.remote, NULL, 2));
#undef MAKE
  INVALID(
      nixl_capi_make_xfer_req(NULL, op, made.local, kGood, 2, made.remote, kGood, 2, &none, NULL));
  INVALID(
      nixl_capi_make_xfer_req(agent, op, made.local, kGood, 2, made.remote, kGood, 2, NULL, NULL));
  INVALID(nixl_capi_make_xfer_req(agent, (nixl_capi_xfer_op_t)7, made.local, kGood, 2, made.remote,
                                  kGood, 2, &none, NULL));
  CHECK(none == NULL);
  OK(nixl_capi_release_xfer_dlist_handle(agent, longer));
  OK(nixl_capi_destroy_xfer_dlist(lengths));
  release(agent, &made);
  close_pair(&pair);
}

static void lists_that_cannot_be_prepared_are_refused(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_dlist_handle_t none = NULL;
  nixl_capi_xfer_dlist_t wild = xfer_list(NIXL_CAPI_MEM_DRAM, (void*)0x1000, 16);
  nixl_capi_xfer_dlist_t wraps = xfer_list(NIXL_CAPI_MEM_DRAM, (void*)UINTPTR_MAX, 16);
  nixl_capi_xfer_dlist_t unknown = xfer_list(NIXL_CAPI_MEM_UNKNOWN, mine, 16);
  NOT_FOUND(nixl_capi_prep_xfer_dlist(agent, "", wild, &none, NULL));
  NOT_FOUND(nixl_capi_prep_xfer_dlist(agent, "there", wild, &none, NULL));
  NOT_FOUND(nixl_capi_prep_xfer_dlist(agent, "nobody", pair.remote, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(agent, "", wraps, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(agent, "", unknown, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(NULL, "", pair.local, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(agent, NULL, pair.local, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(agent, "", NULL, &none, NULL));
  INVALID(nixl_capi_prep_xfer_dlist(agent, "", pair.local, NULL, NULL));
  CHECK(none == NULL);
  OK(nixl_capi_prep_xfer_dlist(agent, "", pair.local, &none, NULL));
  INVALID(nixl_capi_release_xfer_dlist_handle(NULL, none));
  INVALID(nixl_capi_release_xfer_dlist_handle(agent, NULL));
  OK(nixl_capi_release_xfer_dlist_handle(agent, none));
  OK(nixl_capi_destroy_xfer_dlist(wild));
  OK(nixl_capi_destroy_xfer_dlist(wraps));
  OK(nixl_capi_destroy_xfer_dlist(unknown));
  close_pair(&pair);
}

static void requests_that_cannot_be_are_refused(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_req_t none = NULL;
  nixl_capi_xfer_dlist_t fewer = piece_list(theirs, kPiece, 2);
#define CREATE(op, local, remote, name) \
  nixl_capi_create_xfer_req(agent, op, local, remote, name, &none, NULL)
  BACKEND(CREATE(NIXL_CAPI_XFER_OP_READ, pair.local, pair.remote, "nobody"));
  BACKEND(CREATE(NIXL_CAPI_XFER_OP_READ, pair.local, pair.remote, ""));
  BACKEND(CREATE(NIXL_CAPI_XFER_OP_READ, pair.local, fewer, "there"));
  BACKEND(CREATE(NIXL_CAPI_XFER_OP_READ, pair.remote, pair.remote, "there"));
  INVALID(CREATE((nixl_capi_xfer_op_t)2, pair.local, pair.remote, "there"));
  INVALID(CREATE(NIXL_CAPI_XFER_OP_READ, NULL, pair.remote, "there"));
  INVALID(CREATE(NIXL_CAPI_XFER_OP_READ, pair.local, NULL, "there"));
  INVALID(CREATE(NIXL_CAPI_XFER_OP_READ, pair.local, pair.remote, NULL));
#undef CREATE
  INVALID(nixl_capi_create_xfer_req(NULL, NIXL_CAPI_XFER_OP_READ, pair.local, pair.remote, "there",
                                    &none, NULL));
  INVALID(nixl_capi_create_xfer_req(agent, NIXL_CAPI_XFER_OP_READ, pair.local, pair.remote, "there",
                                    NULL, NULL));
  CHECK(none == NULL);
  OK(nixl_capi_destroy_xfer_dlist(fewer));
  close_pair(&pair);
}

static void a_request_is_released_before_it_is_destroyed(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  nixl_capi_backend_t backend = NULL;
  int64_t time = -7, margin = -7;
  nixl_capi_cost_t method;
  struct nixl_capi_xfer_telemetry_s figures;
  BACKEND(nixl_capi_get_xfer_status(agent, made)); /* not posted */
  CHECK_IS(nixl_capi_destroy_xfer_req(made), NIXL_CAPI_ERROR_INVALID_STATE);
  OK(nixl_capi_release_xfer_req(agent, made));
  INVALID(nixl_capi_release_xfer_req(agent, made));
  INVALID(nixl_capi_post_xfer_req(agent, made, NULL));
  INVALID(nixl_capi_get_xfer_status(agent, made));
  INVALID(nixl_capi_query_xfer_backend(agent, made, &backend));
  INVALID(nixl_capi_estimate_xfer_cost(agent, made, NULL, &time, &margin, &method));
  INVALID(nixl_capi_get_xfer_telemetry(agent, made, &figures));
  CHECK(backend == NULL && time == -7 && margin == -7);
  OK(nixl_capi_destroy_xfer_req(made));
  close_pair(&pair);
}

static void requests_refuse_nulls(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  nixl_capi_backend_t backend = NULL;
  int64_t time, margin;
  nixl_capi_cost_t method;
  struct nixl_capi_xfer_telemetry_s figures;
  INVALID(nixl_capi_post_xfer_req(NULL, made, NULL));
  INVALID(nixl_capi_post_xfer_req(agent, NULL, NULL));
  INVALID(nixl_capi_get_xfer_status(NULL, made));
  INVALID(nixl_capi_get_xfer_status(agent, NULL));
  INVALID(nixl_capi_query_xfer_backend(NULL, made, &backend));
  INVALID(nixl_capi_query_xfer_backend(agent, NULL, &backend));
  INVALID(nixl_capi_query_xfer_backend(agent, made, NULL));
  INVALID(nixl_capi_estimate_xfer_cost(NULL, made, NULL, &time, &margin, &method));
  INVALID(nixl_capi_estimate_xfer_cost(agent, NULL, NULL, &time, &margin, &method));
  INVALID(nixl_capi_estimate_xfer_cost(agent, made, NULL, NULL, &margin, &method));
  INVALID(nixl_capi_estimate_xfer_cost(agent, made, NULL, &time, NULL, &method));
  INVALID(nixl_capi_estimate_xfer_cost(agent, made, NULL, &time, &margin, NULL));
  INVALID(nixl_capi_get_xfer_telemetry(NULL, made, &figures));
  INVALID(nixl_capi_get_xfer_telemetry(agent, NULL, &figures));
  INVALID(nixl_capi_get_xfer_telemetry(agent, made, NULL));
  INVALID(nixl_capi_release_xfer_req(NULL, made));
  INVALID(nixl_capi_release_xfer_req(agent, NULL));
  INVALID(nixl_capi_destroy_xfer_req(NULL));
  drop(agent, made);
  close_pair(&pair);
}

static void a_request_reports_its_backend_and_its_cost(void) {
  struct pair pair = open_pair();
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  nixl_capi_backend_t backend = NULL;
  nixl_capi_opt_args_t args = NULL;
  nixl_capi_cost_t method = (nixl_capi_cost_t)1;
  int64_t time = 0, margin = 0;
  OK(nixl_capi_query_xfer_backend(pair.here.agent, made, &backend));
  OK(nixl_capi_create_opt_args(&args));
  OK(nixl_capi_opt_args_add_backend(args, backend)); /* it is one that can be used */
  OK(nixl_capi_estimate_xfer_cost(pair.here.agent, made, NULL, &time, &margin, &method));
  CHECK(time > 0 && margin == 0 &&
        /* memory of the host is not timed */ method == NIXL_CAPI_COST_ANALYTICAL_BACKEND);
  OK(nixl_capi_destroy_opt_args(args));
  OK(nixl_capi_destroy_backend(backend));
  drop(pair.here.agent, made);
  close_pair(&pair);
}

static void figures_are_recorded_when_they_are_asked_for(void) {
  struct nixl_capi_xfer_telemetry_s figures = {0};
  setenv("NIXL_TELEMETRY_ENABLE", "1", 1);
  struct pair pair = open_pair();
  setenv("NIXL_TELEMETRY_ENABLE", "0", 1);
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  BACKEND(nixl_capi_get_xfer_telemetry(pair.here.agent, made, &figures)); /* not posted */
  run(pair.here.agent, made);
  OK(nixl_capi_get_xfer_telemetry(pair.here.agent, made, &figures));
  CHECK(figures.start_time_us > 0 && figures.post_duration_us > 0);
  CHECK(figures.xfer_duration_us >= figures.post_duration_us);
  CHECK(figures.total_bytes == kBytes && figures.desc_count == kPieces);
  drop(pair.here.agent, made);
  close_pair(&pair);

  pair = open_pair();
  unsetenv("NIXL_TELEMETRY_ENABLE");
  made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(pair.here.agent, made);
  CHECK_IS(nixl_capi_get_xfer_telemetry(pair.here.agent, made, &figures),
           NIXL_CAPI_ERROR_NO_TELEMETRY);
  drop(pair.here.agent, made);
  close_pair(&pair);
}

static void what_was_taken_away_is_not_found(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(agent, made);
  nixl_capi_reg_dlist_t list = reg_list(NIXL_CAPI_MEM_DRAM, mine, kBytes);
  OK(nixl_capi_deregister_mem(agent, list, NULL));
  NOT_FOUND(nixl_capi_post_xfer_req(agent, made, NULL));
  OK(nixl_capi_get_xfer_status(agent, made)); /* the last post went well */
  drop(agent, made);
  OK(nixl_capi_register_mem(agent, list, NULL));
  made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  OK(nixl_capi_invalidate_remote_md(agent, "there"));
  CHECK(nixl_capi_post_xfer_req(agent, made, NULL) < 0);
  drop(agent, made);
  OK(nixl_capi_destroy_reg_dlist(list));
  close_pair(&pair);
}

/* NIXL forgets it, and vLLM asks whether it did: then it meets the peer again. */
static void a_peer_that_is_lost_is_unknown_until_it_is_met_again(void) {
  struct pair pair = open_pair();
  nixl_capi_agent_t agent = pair.here.agent;
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(agent, made);
  OK(nixl_capi_check_remote_md(agent, "there", pair.remote));
  close_side(&pair.there);
  int status = nixl_capi_post_xfer_req(agent, made, NULL);
  if (status >= 0) status = status_at_end(agent, made);
  BACKEND(status);
  NOT_FOUND(nixl_capi_check_remote_md(agent, "there", NULL));
  NOT_FOUND(nixl_capi_check_remote_md(agent, "there", pair.remote));
  drop(agent, made);
  pair.there = open_side("there", peer_plugin());
  register_bytes(&pair.there, theirs, kBytes);
  introduce(&pair.here, &pair.there);
  OK(nixl_capi_check_remote_md(agent, "there", pair.remote));
  made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(agent, made);
  drop(agent, made);
  close_pair(&pair);
}

static void bytes_go_to_a_file_and_back(const char* metadata, int fd) {
  struct side side = open_side("alone", "POSIX");
  nixl_capi_reg_dlist_t file = NULL;
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, mine, kBytes);
  nixl_capi_xfer_dlist_t remote = NULL;
  nixl_capi_xfer_req_t made = NULL;
  register_bytes(&side, mine, kBytes);
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_FILE, &file));
  OK(nixl_capi_reg_dlist_add_desc(file, 0, 0, (uint64_t)fd, metadata, strlen(metadata)));
  OK(nixl_capi_register_mem(side.agent, file, side.args));
  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_FILE, &remote));
  OK(nixl_capi_xfer_dlist_add_desc(remote, 4096, kBytes, (uint64_t)fd));
  memset(mine, 6, kBytes);
  OK(nixl_capi_create_xfer_req(side.agent, NIXL_CAPI_XFER_OP_WRITE, local, remote, "alone", &made,
                               NULL));
  run(side.agent, made);
  drop(side.agent, made);
  memset(mine, 0, kBytes);
  OK(nixl_capi_create_xfer_req(side.agent, NIXL_CAPI_XFER_OP_READ, local, remote, "alone", &made,
                               side.args));
  run(side.agent, made);
  CHECK(mine[0] == 6 && mine[kBytes - 1] == 6);
  drop(side.agent, made);
  OK(nixl_capi_deregister_mem(side.agent, file, NULL));
  OK(nixl_capi_destroy_reg_dlist(file));
  OK(nixl_capi_destroy_xfer_dlist(local));
  OK(nixl_capi_destroy_xfer_dlist(remote));
  close_side(&side);
}

static void files_come_as_descriptors_and_as_paths(void) {
  char path[] = "capi_test_XXXXXX";
  char metadata[64];
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  bytes_go_to_a_file_and_back("", fd);
  CHECK(ftruncate(fd, 0) == 0);
  bytes_go_to_a_file_and_back(path, fd); /* metadata without a mode is a remark */
  close(fd);
  unlink(path);
  snprintf(metadata, sizeof metadata, "rw,create:%s", path);
  bytes_go_to_a_file_and_back(metadata, 77);
  CHECK(unlink(path) == 0);

  struct side side = open_side("alone", "POSIX");
  nixl_capi_reg_dlist_t list = NULL;
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_FILE, &list));
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 16, 1, "ro:capi_test_not_there", 22));
  NOT_FOUND(nixl_capi_register_mem(side.agent, list, NULL));
  OK(nixl_capi_reg_dlist_clear(list));
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 16, 1ULL << 40, NULL, 0));
  INVALID(nixl_capi_register_mem(side.agent, list, NULL));
  OK(nixl_capi_destroy_reg_dlist(list));
  close_side(&side);
}

static void an_agent_goes_while_a_request_stands(void) {
  struct pair pair = open_pair();
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(pair.here.agent, made);
  close_side(&pair.there);
  pair.there = open_side("there", peer_plugin()); /* another life under the same name */
  introduce(&pair.here, &pair.there);
  CHECK(nixl_capi_post_xfer_req(pair.here.agent, made, NULL) < 0);
  drop(pair.here.agent, made);
  close_pair(&pair);
}

static void a_forked_child_that_destroys_its_copies_leaves_the_parent_alone(void) {
  struct pair pair = open_pair();
  nixl_capi_xfer_req_t made = request(&pair, NIXL_CAPI_XFER_OP_WRITE);
  run(pair.here.agent, made);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30); /* what hangs must end */
    CHECK(nixl_capi_post_xfer_req(pair.here.agent, made, NULL) < 0);
    drop(pair.here.agent, made);
    OK(nixl_capi_destroy_agent(pair.here.agent));
    OK(nixl_capi_destroy_agent(pair.there.agent));
    _exit(failed_checks != 0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  memset(mine, 5, kBytes);
  run(pair.here.agent, made);
  CHECK(memcmp(mine, theirs, kBytes) == 0);
  drop(pair.here.agent, made);
  nixl_capi_xfer_req_t read = request(&pair, NIXL_CAPI_XFER_OP_READ);
  run(pair.here.agent, read);
  drop(pair.here.agent, read);
  close_pair(&pair);
}

const struct test_case transfer_cases[] = {
    {"transfer.a_forked_child_that_destroys_its_copies_leaves_the_parent_alone",
     a_forked_child_that_destroys_its_copies_leaves_the_parent_alone},
    {"transfer.bytes_are_written_and_read", bytes_are_written_and_read},
    {"transfer.an_agent_without_a_thread_moves_bytes_when_it_is_asked",
     an_agent_without_a_thread_moves_bytes_when_it_is_asked},
    {"transfer.pieces_are_chosen_by_index", pieces_are_chosen_by_index},
    {"transfer.selections_that_cannot_be_are_refused", selections_that_cannot_be_are_refused},
    {"transfer.lists_that_cannot_be_prepared_are_refused",
     lists_that_cannot_be_prepared_are_refused},
    {"transfer.requests_that_cannot_be_are_refused", requests_that_cannot_be_are_refused},
    {"transfer.a_request_is_released_before_it_is_destroyed",
     a_request_is_released_before_it_is_destroyed},
    {"transfer.requests_refuse_nulls", requests_refuse_nulls},
    {"transfer.a_request_reports_its_backend_and_its_cost", a_request_reports_its_backend_and_its_cost},
    {"transfer.figures_are_recorded_when_they_are_asked_for",
     figures_are_recorded_when_they_are_asked_for},
    {"transfer.what_was_taken_away_is_not_found", what_was_taken_away_is_not_found},
    {"transfer.a_peer_that_is_lost_is_unknown_until_it_is_met_again",
     a_peer_that_is_lost_is_unknown_until_it_is_met_again},
    {"transfer.files_come_as_descriptors_and_as_paths", files_come_as_descriptors_and_as_paths},
    {"transfer.an_agent_goes_while_a_request_stands", an_agent_goes_while_a_request_stands},
    {NULL, NULL}};
