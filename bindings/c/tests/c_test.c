/* Calls every function of towpath.h: a connector that saves a prompt's blocks and loads them into
 * others, also after a restart and from another process, and blobs.
 */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bindings/testing/check.h"
#include "towpath.h"

enum { kBlocks = 8, kLayers = 2, kTokens = 4, kHeads = 2, kDim = 8, kWidth = 2, kPrompt = 12 };
enum { kPage = kTokens * kHeads * kDim * kWidth, kCache = 2 * kBlocks * kPage };

int failed_checks = 0;
static towpath_error_t failure;

#define IS(call, wanted)                                                                           \
  do {                                                                                             \
    const towpath_code_t got_ = (call);                                                            \
    if (got_ != (wanted)) {                                                                        \
      fprintf(stderr, "%s:%d: %s is %s: %s\n", __FILE__, __LINE__, #call, towpath_code_name(got_), \
              failure.text);                                                                       \
      ++failed_checks;                                                                             \
    }                                                                                              \
  } while (0)

#define OK(call) IS(call, TOWPATH_OK)

static unsigned char* caches[kLayers];

/* A block of a layer is two pages, keys' and values', kBlocks pages apart. */
static unsigned char* page_of(int layer, int outer, int block) {
  return caches[layer] + (outer * kBlocks + block) * kPage;
}

static void compute(int block, int content) {
  for (int layer = 0; layer < kLayers; ++layer)
    for (int outer = 0; outer < 2; ++outer)
      for (int i = 0; i < kPage; ++i)
        page_of(layer, outer, block)[i] = (unsigned char)(content * 31 + layer * 7 + outer * 3 + i);
}

static int holds(int block, int content) {
  for (int layer = 0; layer < kLayers; ++layer)
    for (int outer = 0; outer < 2; ++outer)
      for (int i = 0; i < kPage; ++i)
        if (page_of(layer, outer, block)[i] !=
            (unsigned char)(content * 31 + layer * 7 + outer * 3 + i))
          return 0;
  return 1;
}

static towpath_worker_options_t options_of_caches(void) {
  static const uint64_t lengths[kLayers] = {kCache, kCache};
  towpath_worker_options_t options = TOWPATH_INIT(towpath_worker_options_t);
  options.num_blocks = kBlocks;
  options.num_layers = kLayers;
  options.outer_dim = 2;
  options.tokens_per_block = kTokens;
  options.num_heads = kHeads;
  options.head_dim = kDim;
  options.element_bytes = kWidth;
  options.kind = TOWPATH_LAYER_SEPARATE_BLOCK_SECOND;
  options.caches = (void* const*)caches;
  options.lengths = lengths;
  options.cache_count = kLayers;
  options.host_blocks = 16;
  return options;
}

/* In `directory`, or met by others in the scope `meeting`; or neither. */
static towpath_worker_t* open_worker(const char* directory, const char* meeting, const char* name,
                                     const char* other) {
  towpath_worker_options_t options = options_of_caches();
  options.name_space = "a model, int16";
  options.directory = directory;
  options.direct = 1;
  options.rendezvous = meeting;
  options.peer_name = name;
  options.peers = &other;
  options.peer_count = meeting != NULL;
  options.peer_timeout_ms = 60000;
  options.peer_serving_thread = 1;
  towpath_worker_t* worker = NULL;
  OK(towpath_worker_open(&options, &worker, &failure));

  towpath_worker_t* none = NULL;
  options.kind = 77;
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  options.kind = TOWPATH_LAYER_SEPARATE_BLOCK_SECOND;
  options.num_blocks = 1000; /* more than the caches have room for */
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  options.num_blocks = kBlocks;
  options.peer_backend_count = 1; /* of no names */
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  options.peer_backend_count = 0;
  options.objects = "s3://bucket/prefix"; /* of no size */
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  options.objects = NULL;
  options.policy = "lucky";
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  options.policy = "s3-fifo";
  options.kvbm =
      "{\"cache\": {\"host\": {\"num_blocks\": 0}}}"; /* and nothing else says how many */
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  CHECK(strstr(failure.text, "CPU_CACHE_GB") != NULL);
  options.kvbm = NULL;
  options.directory = NULL;
  options.rendezvous = "nowhere:";
  IS(towpath_worker_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  CHECK(none == NULL && strlen(failure.text) > 0);
  return worker;
}

static void update(towpath_scheduler_t* scheduler, towpath_worker_t* worker) {
  void* report = NULL;
  size_t size = 0;
  OK(towpath_worker_take_report(worker, &report, &size, &failure));
  OK(towpath_scheduler_update(scheduler, report, size, &failure));
  IS(towpath_scheduler_update(scheduler, report, size - 1, &failure), TOWPATH_CORRUPT);
  towpath_free(report);
}

static void step(towpath_scheduler_t* scheduler, towpath_worker_t* worker) {
  void* orders = NULL;
  size_t size = 0;
  OK(towpath_scheduler_step_begins(scheduler, 1, &failure)); /* too few to count */
  OK(towpath_scheduler_build(scheduler, &orders, &size, &failure));
  OK(towpath_worker_start_step(worker, orders, size, &failure));
  for (uint64_t layer = 0; layer < kLayers; ++layer) {
    OK(towpath_worker_wait_for_layer_load(worker, layer, &failure));
    OK(towpath_worker_save_layer(worker, layer, &failure));
  }
  OK(towpath_worker_wait_for_save(worker, &failure));
  OK(towpath_scheduler_step_ends(scheduler, &failure));
  update(scheduler, worker);
  towpath_free(orders);
}

/* Blocks first, first + 1, ... of the prompt; what is not loaded is computed. */
static uint64_t serve(towpath_scheduler_t* scheduler, towpath_worker_t* worker, const char* request,
                      uint64_t first) {
  uint32_t tokens[kPrompt];
  for (uint32_t i = 0; i < kPrompt; ++i) tokens[i] = 1000 + i;
  const uint64_t blocks[] = {first, first + 1, first + 2};
  towpath_prompt_t prompt = TOWPATH_INIT(towpath_prompt_t);
  prompt.tokens = tokens;
  prompt.token_count = kPrompt;
  uint64_t matched = 0;
  int in_background = 0;
  OK(towpath_scheduler_match(scheduler, request, &prompt, &matched, &in_background, &failure));
  CHECK(in_background == 0);
  OK(towpath_scheduler_allocate(scheduler, request, blocks, 3, matched, &failure));
  for (uint64_t i = matched / kTokens; i < 3; ++i) compute((int)(first + i), (int)i);
  towpath_progress_t progress = TOWPATH_INIT(towpath_progress_t);
  progress.computed_before = matched;
  progress.computed_after = kPrompt;
  progress.priority = 256;
  IS(towpath_scheduler_advance(scheduler, request, &progress, &failure), TOWPATH_INVALID_ARGUMENT);
  progress.priority = 90;
  OK(towpath_scheduler_advance(scheduler, request, &progress, &failure));
  step(scheduler, worker);
  OK(towpath_scheduler_preempt(scheduler, request, &failure));
  int stay = 1;
  OK(towpath_scheduler_finish(scheduler, request, &stay, &failure));
  CHECK(stay == 0);
  IS(towpath_scheduler_finish(scheduler, request, &stay, &failure), TOWPATH_NOT_FOUND);
  CHECK(failure.code == TOWPATH_NOT_FOUND && strstr(failure.text, request) != NULL);
  return matched;
}

/* Of a prompt that is kept, what was asked is done, and answered. */
static void expect_hint(towpath_scheduler_t* scheduler, towpath_worker_t* worker) {
  uint32_t tokens[kPrompt];
  for (uint32_t i = 0; i < kPrompt; ++i) tokens[i] = 1000 + i;
  towpath_prompt_t prompt = TOWPATH_INIT(towpath_prompt_t);
  prompt.tokens = tokens;
  prompt.token_count = kPrompt;
  uint64_t matched = 0;
  int in_background = 0, stay = 0;
  OK(towpath_scheduler_match(scheduler, "hinted", &prompt, &matched, &in_background, &failure));
  towpath_hint_t hint = TOWPATH_INIT(towpath_hint_t);
  hint.id = "turn 7";
  IS(towpath_scheduler_hint(scheduler, "hinted", &hint, &failure), TOWPATH_INVALID_ARGUMENT);
  hint.action = "retain";
  hint.keep_ms = UINT64_MAX;
  IS(towpath_scheduler_hint(scheduler, "hinted", &hint, &failure), TOWPATH_INVALID_ARGUMENT);
  hint.keep_ms = 60000;
  hint.end_token = 2 * kTokens;
  OK(towpath_scheduler_hint(scheduler, "hinted", &hint, &failure));
  OK(towpath_scheduler_finish(scheduler, "hinted", &stay, &failure));
  step(scheduler, worker);
  towpath_answered_hint_t* hints = NULL;
  size_t count = 0;
  for (int looks = 0; count == 0 && looks < 100000; ++looks) {
    towpath_free(hints);
    update(scheduler, worker);
    OK(towpath_scheduler_take_answered_hints(scheduler, &hints, &count, &failure));
  }
  CHECK(count == 1 && strcmp(hints->id, "turn 7") == 0 && strcmp(hints->action, "retain") == 0);
  CHECK(strcmp(hints->outcome, "accepted") == 0 && hints->blocks == 2 && hints->left == 0);
  CHECK(strcmp(hints->why, "") == 0);
  towpath_free(hints);
}

static size_t hinted_orders_size(towpath_scheduler_t* scheduler, const towpath_hint_t* hint) {
  void* orders = NULL;
  size_t size = 0;
  OK(towpath_scheduler_hint(scheduler, "of a session", hint, &failure));
  OK(towpath_scheduler_build(scheduler, &orders, &size, &failure));
  towpath_free(orders);
  return size;
}

/* Orders name the session; a program that was built before there were sessions has none. */
static void expect_session(towpath_scheduler_t* scheduler) {
  const uint32_t tokens[kTokens] = {1, 2, 3, 4};
  towpath_prompt_t prompt = TOWPATH_INIT(towpath_prompt_t);
  prompt.tokens = tokens;
  prompt.token_count = kTokens;
  uint64_t matched = 0;
  int in_background = 0, stay = 0;
  OK(towpath_scheduler_match(scheduler, "of a session", &prompt, &matched, &in_background,
                             &failure));
  towpath_hint_t hint = TOWPATH_INIT(towpath_hint_t);
  hint.action = "demote";
  (void)hinted_orders_size(scheduler, &hint); /* with what was ordered before */
  const size_t of_none = hinted_orders_size(scheduler, &hint);
  hint.session = "agent 7";
  CHECK(hinted_orders_size(scheduler, &hint) > of_none);
  hint.size = offsetof(towpath_hint_t, session);
  hint.session = (const char*)1;
  CHECK(hinted_orders_size(scheduler, &hint) == of_none);
  OK(towpath_scheduler_finish(scheduler, "of a session", &stay, &failure));
}

/* Blocks of the prompt that the scheduler reports, whole and in their order. */
static void expect_events(towpath_scheduler_t* scheduler, size_t expected) {
  towpath_block_event_t* events = NULL;
  size_t count = 99;
  OK(towpath_scheduler_take_events(scheduler, &events, &count, &failure));
  CHECK(count == expected);
  for (size_t i = 0; i < count; ++i) {
    const towpath_block_event_t* event = &events[i];
    CHECK(event->is_stored == 1 && event->token_count == kTokens && strcmp(event->room, "") == 0);
    CHECK(event->tokens[0] == 1000 + kTokens * i && event->tokens[3] == 1003 + kTokens * i);
    CHECK(event->has_parent == (i > 0) && event->parent == (i > 0 ? events[i - 1].hash : 0));
  }
  towpath_free(events);
}

static void take_what_is_left(towpath_worker_t* worker) {
  int more = 1;
  while (more) OK(towpath_worker_progress(worker, &more, &failure));
  char **sent = NULL, **received = NULL;
  size_t sent_count = 9, received_count = 9, failed_count = 9;
  OK(towpath_worker_take_finished(worker, &sent, &sent_count, &received, &received_count,
                                  &failure));
  CHECK(sent_count == 0 && received_count == 0);
  towpath_free(sent);
  towpath_free(received);
  uint64_t* failed = NULL;
  OK(towpath_worker_take_failed_blocks(worker, &failed, &failed_count, &failure));
  CHECK(failed_count == 0);
  towpath_free(failed);
  OK(towpath_worker_sync(worker, &failure));
  IS(towpath_worker_save_layer(worker, kLayers, &failure), TOWPATH_OUT_OF_RANGE);
}

static void connector(const char* directory) {
  towpath_scheduler_options_t options = TOWPATH_INIT(towpath_scheduler_options_t);
  options.tokens_per_block = kTokens;
  options.workers = 65;
  towpath_scheduler_t* scheduler = NULL;
  IS(towpath_scheduler_open(&options, &scheduler, &failure), TOWPATH_INVALID_ARGUMENT);
  options.workers = 1;
  options.events_with_tokens = 1;
  for (int life = 0; life < 2; ++life) {
    OK(towpath_scheduler_open(&options, &scheduler, &failure));
    towpath_worker_t* worker = open_worker(directory, NULL, NULL, NULL);
    update(scheduler, worker);
    for (int layer = 0; layer < kLayers; ++layer) memset(caches[layer], 0, kCache);
    CHECK(serve(scheduler, worker, "first", 0) == (life == 0 ? 0 : 2 * kTokens));
    CHECK(holds(0, 0) && holds(1, 1) && holds(2, 2));
    expect_events(scheduler, 3);
    CHECK(serve(scheduler, worker, "second", 4) == 2 * kTokens);
    CHECK(holds(4, 0) && holds(5, 1));
    expect_events(scheduler, 0);
    expect_hint(scheduler, worker);
    expect_session(scheduler);
    take_what_is_left(worker);
    towpath_worker_close(worker);
    towpath_scheduler_close(scheduler);
  }
  IS(towpath_worker_wait_for_save(NULL, &failure), TOWPATH_INVALID_ARGUMENT);
  IS(towpath_worker_wait_for_save(NULL, NULL), TOWPATH_INVALID_ARGUMENT);
  towpath_worker_close(NULL);
  towpath_scheduler_close(NULL);
}

static towpath_scheduler_t* open_scheduler(void) {
  towpath_scheduler_options_t options = TOWPATH_INIT(towpath_scheduler_options_t);
  options.tokens_per_block = kTokens;
  towpath_scheduler_t* scheduler = NULL;
  OK(towpath_scheduler_open(&options, &scheduler, &failure));
  return scheduler;
}

/* Computes the prompt's blocks and calls nobody then: a thread lends them until it is killed. */
static void be_prefill(const char* meeting) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  towpath_scheduler_t* scheduler = open_scheduler();
  towpath_worker_t* worker = open_worker(NULL, meeting, "prefill", "decode");
  serve(scheduler, worker, "first", 0);
  while (failed_checks == 0) pause();
  _exit(1);
}

static towpath_worker_figures_t figures_of(towpath_worker_t* worker) {
  towpath_worker_figures_t figures = TOWPATH_INIT(towpath_worker_figures_t);
  OK(towpath_worker_figures(worker, &figures, &failure));
  return figures;
}

/* What it has inherited is its parent's, which goes on. */
static void close_in_a_forked_child(towpath_worker_t* worker) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30); /* what hangs must end */
    int more = 0;
    IS(towpath_worker_progress(worker, &more, &failure), TOWPATH_NOT_READY);
    towpath_worker_close(worker);
    _exit(failed_checks != 0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void peers(void) {
  char meeting[64];
  snprintf(meeting, sizeof meeting, "scope:c-test-%d", (int)getpid());
  fflush(NULL);
  const pid_t prefill = fork();
  if (prefill == 0) be_prefill(meeting);
  for (int layer = 0; layer < kLayers; ++layer) memset(caches[layer], 0, kCache);
  towpath_scheduler_t* scheduler = open_scheduler();
  towpath_worker_t* worker = open_worker(NULL, meeting, "decode", "prefill");
  towpath_prompt_t prompt = TOWPATH_INIT(towpath_prompt_t);
  uint32_t tokens[kPrompt];
  for (uint32_t i = 0; i < kPrompt; ++i) tokens[i] = 1000 + i;
  prompt.tokens = tokens;
  prompt.token_count = kPrompt;
  uint64_t matched = 0;
  int in_background = 0;
  while (failed_checks == 0 && matched < 2 * kTokens && waitpid(prefill, NULL, WNOHANG) == 0) {
    update(scheduler, worker);
    OK(towpath_scheduler_match(scheduler, "peek", &prompt, &matched, &in_background, &failure));
    usleep(1000);
  }
  close_in_a_forked_child(worker);
  CHECK(serve(scheduler, worker, "second", 4) == 2 * kTokens);
  CHECK(holds(4, 0) && holds(5, 1) && holds(6, 2));
  const towpath_worker_figures_t figures = figures_of(worker);
  CHECK(figures.loaded_blocks == 2 && figures.leased_blocks == 2 && figures.peers == 1);
  CHECK(figures.failed_blocks == 0 && figures.failed_leases == 0);
  kill(prefill, SIGKILL);
  waitpid(prefill, NULL, 0);
  towpath_worker_close(worker);
  towpath_scheduler_close(scheduler);
}

/* Its heads and their width make the right product, once what does not fit is cut off. */
static void a_shape_that_wraps_is_refused(void) {
  towpath_worker_options_t options = options_of_caches();
  options.head_dim = (UINT64_C(1) << 63) + kDim;
  towpath_worker_t* worker = NULL;
  IS(towpath_worker_open(&options, &worker, &failure), TOWPATH_OUT_OF_RANGE);
  CHECK(worker == NULL);
}

/* Zeros, and then some fields: all of them would be taken for not set. */
static void a_struct_that_says_no_size_is_refused(void) {
  towpath_scheduler_options_t options;
  memset(&options, 0, sizeof options);
  options.tokens_per_block = kTokens;
  towpath_scheduler_t* none = NULL;
  IS(towpath_scheduler_open(&options, &none, &failure), TOWPATH_INVALID_ARGUMENT);
  CHECK(none == NULL && strstr(failure.text, "TOWPATH_INIT") != NULL);

  towpath_scheduler_t* scheduler = open_scheduler();
  const uint32_t tokens[kPrompt] = {0};
  towpath_prompt_t prompt;
  memset(&prompt, 0, sizeof prompt);
  prompt.tokens = tokens;
  prompt.token_count = kPrompt;
  uint64_t matched = 99;
  int in_background = 99;
  IS(towpath_scheduler_match(scheduler, "sized", &prompt, &matched, &in_background, &failure),
     TOWPATH_INVALID_ARGUMENT);
  prompt.size = sizeof prompt.size;
  IS(towpath_scheduler_match(scheduler, "sized", &prompt, &matched, &in_background, &failure),
     TOWPATH_INVALID_ARGUMENT);
  CHECK(matched == 99 && in_background == 99);
  prompt.size = offsetof(towpath_prompt_t, room); /* as an older program's */
  OK(towpath_scheduler_match(scheduler, "sized", &prompt, &matched, &in_background, &failure));
  CHECK(matched == 0);
  towpath_scheduler_close(scheduler);
}

static void blobs(const char* directory) {
  towpath_blobs_t* store = NULL;
  OK(towpath_blobs_open(directory, &store, &failure));
  char state[1000], back[1000];
  memset(state, 7, sizeof state);
  OK(towpath_blobs_save(store, "chat", "a model", state, sizeof state, &failure));
  uint64_t length = 0;
  OK(towpath_blobs_length(store, "chat", &length, &failure));
  CHECK(length == sizeof state);
  OK(towpath_blobs_restore(store, "chat", "a model", back, sizeof back, &failure));
  CHECK(memcmp(state, back, sizeof back) == 0);
  IS(towpath_blobs_restore(store, "chat", NULL, back, sizeof back, &failure),
     TOWPATH_INVALID_ARGUMENT);
  OK(towpath_blobs_verify(store, "chat", &failure));

  char path[512];
  snprintf(path, sizeof path, "%s/chat.blob", directory);
  const int file = open(path, O_WRONLY);
  CHECK(pwrite(file, "!", 1, 4096 + 500) == 1);
  close(file);
  IS(towpath_blobs_verify(store, "chat", &failure), TOWPATH_CORRUPT);
  memset(back, 9, sizeof back);
  IS(towpath_blobs_restore(store, "chat", "a model", back, sizeof back, &failure), TOWPATH_CORRUPT);
  CHECK(back[0] == 0 && back[999] == 0);
  memset(back, 9, sizeof back);
  IS(towpath_blobs_restore(store, NULL, NULL, back, sizeof back, &failure),
     TOWPATH_INVALID_ARGUMENT);
  CHECK(back[0] == 0 && back[999] == 0);
  OK(towpath_blobs_remove(store, "chat", &failure));
  IS(towpath_blobs_length(store, "chat", &length, &failure), TOWPATH_NOT_FOUND);
  towpath_blobs_close(store);
  towpath_blobs_close(NULL);
}

int main(void) {
  char folder[] = "/tmp/towpath-c-XXXXXX", kv[64], kept[64], command[128];
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(kv, sizeof kv, "%s/kv", folder);
  snprintf(kept, sizeof kept, "%s/blobs", folder);
  for (int layer = 0; layer < kLayers; ++layer) caches[layer] = calloc(1, kCache);
  CHECK(strlen(towpath_version()) > 0);
  CHECK(strcmp(towpath_code_name(TOWPATH_CORRUPT), "corrupt") == 0);
  CHECK(strcmp(towpath_code_name((towpath_code_t)256), "unknown") == 0);
  connector(kv);
  peers();
  a_shape_that_wraps_is_refused();
  a_struct_that_says_no_size_is_refused();
  blobs(kept);
  for (int layer = 0; layer < kLayers; ++layer) free(caches[layer]);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0) return 1;
  printf("%s\n", failed_checks == 0 ? "good" : "FAILED");
  return failed_checks != 0;
}
