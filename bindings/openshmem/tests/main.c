/* openshmem_test [PREFIX]: runs the cases whose name begins so, on every PE of the job. */
#include "check.h"

int failed_checks = 0;

static void after(const char* name, int good) {
  shmem_barrier_all();
  if (!good || shmem_my_pe() == 0) report_case(name, good);
}

int main(int argc, char** argv) {
  const char* prefix = argc > 1 ? argv[1] : "";
  const struct test_case* const all[] = {rma_cases,    atomic_cases, wait_cases,    team_cases,
                                         memory_cases, old_cases,    generic_cases, example_cases};
  int provided = -1;
  int has_begun = -1, has_ended = -1;
  shmem_query_initialized(&has_begun);
  shmem_query_finalized(&has_ended);
  CHECK(has_begun == 0 && has_ended == 0);
  CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0);
  CHECK(provided == SHMEM_THREAD_MULTIPLE);
  int ran = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ran += run_cases(all[i], prefix, after);
  if (ran == 0) fprintf(stderr, "no case begins with '%s'\n", prefix);
  shmem_finalize();
  shmem_query_initialized(&has_begun);
  shmem_query_finalized(&has_ended);
  CHECK(has_begun == 0 && has_ended == 1);
  return ran == 0 || failed_checks != 0;
}
