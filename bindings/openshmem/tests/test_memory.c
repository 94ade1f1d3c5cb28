/* The heap, variables, addresses, and what a PE can ask. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int initialised = 7;
static char zeroed[100000];
int global[3] = {1, 2, 3};

static void variables_keep_their_values(void) {
  CHECK(initialised == 7 && global[2] == 3);
  for (size_t i = 0; i < sizeof zeroed; i += 1000) CHECK(zeroed[i] == 0);
  shmem_barrier_all();
  shmem_int_p(&global[1], 100 + shmem_my_pe(), next_pe());
  zeroed[sizeof zeroed - 1] = (char)('a' + shmem_my_pe());
  shmem_barrier_all();
  CHECK(global[1] == 100 + last_pe());
  CHECK(shmem_char_g(&zeroed[sizeof zeroed - 1], next_pe()) == 'a' + next_pe());
}

static void allocation(void) {
  CHECK(shmem_malloc(0) == NULL);
  CHECK(shmem_calloc(0, 8) == NULL);
  int* a = shmem_malloc(100 * sizeof(int));
  CHECK(a != NULL);
  memset(a, 0xff, 100 * sizeof(int));
  shmem_free(a);
  int* b = shmem_calloc(100, sizeof(int));
  for (int i = 0; i < 100; ++i) CHECK(b[i] == 0);
  char* page = shmem_align(4096, 10);
  CHECK((uintptr_t)page % 4096 == 0);
  CHECK(shmem_align(3, 10) == NULL);
  for (size_t alignment = 8; alignment <= (size_t)2 << 20; alignment *= 2) {
    char* aligned = shmem_align(alignment, 10);
    CHECK(aligned != NULL && (uintptr_t)aligned % alignment == 0);
    shmem_free(aligned);
  }
  long* counted = shmem_malloc_with_hints(sizeof(long), SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
  CHECK(counted != NULL);
  shmem_free(counted);
  shmem_free(page);
  shmem_free(b);
  shmem_free(NULL);
}

static void reallocation_keeps_what_fits(void) {
  int* a = shmem_realloc(NULL, 4 * sizeof(int));
  for (int i = 0; i < 4; ++i) a[i] = 10 * shmem_my_pe() + i;
  a = shmem_realloc(a, 10000 * sizeof(int));
  for (int i = 0; i < 4; ++i) CHECK(shmem_int_g(&a[i], next_pe()) == 10 * next_pe() + i);
  shmem_barrier_all();
  int* const smaller = shmem_realloc(a, 2 * sizeof(int));
  CHECK(smaller == a && a[1] == 10 * shmem_my_pe() + 1);
  /* All PEs hear of a size that differs, and keep what there was. */
  const size_t count = shmem_my_pe() == 0 ? 1 : 2;
  CHECK((shmem_realloc(a, count * sizeof(int)) == NULL) == (shmem_n_pes() > 1));
  CHECK(a[1] == 10 * shmem_my_pe() + 1);
  CHECK(shmem_realloc(a, 0) == NULL);
}

static void too_much_is_null(void) {
  CHECK(shmem_malloc((size_t)1 << 45) == NULL);
  CHECK(shmem_calloc((size_t)1 << 40, (size_t)1 << 40) == NULL);
}

static void addresses(void) {
  static int word;
  int local = 0;
  int* a = shmem_malloc(sizeof(int));
  word = *a = shmem_my_pe();
  shmem_barrier_all();
  const int is_here = shmem_team_translate_pe(SHMEM_TEAM_WORLD, next_pe(), SHMEM_TEAM_SHARED) >= 0;
  const int* theirs = shmem_ptr(&word, next_pe());
  CHECK(is_here ? theirs != NULL && *theirs == next_pe() : theirs == NULL);
  theirs = shmem_ptr(a, next_pe());
  CHECK(is_here ? theirs != NULL && *theirs == next_pe() : theirs == NULL);
  CHECK(shmem_ptr(&word, shmem_my_pe()) == &word);
  CHECK(shmem_ptr(&local, 0) == NULL);
  CHECK(shmem_ptr(a, shmem_n_pes()) == NULL);
  CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, &word, shmem_my_pe()) == &word);
  CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, &word, 0) == NULL);
  CHECK(shmem_addr_accessible(&word, next_pe()) && shmem_addr_accessible(a, next_pe()));
  CHECK(!shmem_addr_accessible(&local, next_pe()) && !shmem_addr_accessible(a, -1));
  CHECK(shmem_pe_accessible(0) && !shmem_pe_accessible(shmem_n_pes()) && !shmem_pe_accessible(-1));
  shmem_barrier_all();
  shmem_free(a);
}

static int is_forked_child = 0;

/* LeakSanitizer asks this as a process ends. A forked child has no stacks of its parent's other
   threads: what only they pointed to is no leak. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return is_forked_child; }

/* By exit(), with its handlers: PE 0 goes on, and nobody hears of it. */
static void forked_children_end_alone(void) {
  for (int status = 0; shmem_my_pe() == 0 && status < 128; status += 127) {
    int ended = -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
      is_forked_child = 1;
      exit(status);
    }
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == status);
  }
  shmem_barrier_all();
}

static void what_a_pe_can_ask(void) {
  int major = 0, minor = 0, level = -1, has_begun = -1, has_ended = -1;
  char name[SHMEM_MAX_NAME_LEN] = "";
  shmem_info_get_version(&major, &minor);
  CHECK(major == 1 && minor == 6);
  shmem_info_get_name(name);
  CHECK(strcmp(name, SHMEM_VENDOR_STRING) == 0);
  shmem_query_thread(&level);
  CHECK(level == SHMEM_THREAD_MULTIPLE);
  CHECK(shmem_my_pe() >= 0 && shmem_my_pe() < shmem_n_pes());
  shmem_pcontrol(1);
  shmem_init(); /* again: as often as the end */
  CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &level) == 0 && level == SHMEM_THREAD_MULTIPLE);
  shmem_finalize();
  shmem_finalize();
  shmem_query_initialized(&has_begun);
  shmem_query_finalized(&has_ended);
  CHECK(has_begun == 1 && has_ended == 0);
  shmem_fence();
  shmem_sync_all();
}

const struct test_case memory_cases[] = {{"memory.variables_keep_their_values", variables_keep_their_values},
                                         {"memory.allocation", allocation},
                                         {"memory.reallocation_keeps_what_fits", reallocation_keeps_what_fits},
                                         {"memory.too_much_is_null", too_much_is_null},
                                         {"memory.addresses", addresses},
                                         {"memory.forked_children_end_alone", forked_children_end_alone},
                                         {"memory.what_a_pe_can_ask", what_a_pe_can_ask},
                                         {NULL, NULL}};
