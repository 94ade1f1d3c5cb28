/* A user of towpath.h: linked as pkg-config says, without a word of the C++ library. */
#include <stdio.h>
#include <string.h>

#include <towpath.h>

int main(void) {
  towpath_error_t error;
  towpath_scheduler_t* scheduler = NULL;
  towpath_scheduler_options_t options = TOWPATH_INIT(towpath_scheduler_options_t);
  if (towpath_scheduler_open(&options, &scheduler, &error) != TOWPATH_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  towpath_scheduler_close(scheduler);
  /* Refused, but all that a worker needs is in the library. */
  towpath_worker_t* worker = NULL;
  towpath_worker_options_t wanted = TOWPATH_INIT(towpath_worker_options_t);
  if (towpath_worker_open(&wanted, &worker, &error) != TOWPATH_INVALID_ARGUMENT) return 1;
  return strcmp(towpath_version(), WANTED) == 0 ? 0 : 1;
}
