/* capi_test [PREFIX]: runs the cases whose name begins so. */
#include "check.h"

int failed_checks = 0;

int main(int argc, char** argv) {
  const char* prefix = argc > 1 ? argv[1] : "";
  const struct test_case* const all[] = {list_cases,     agent_cases,    memory_cases,
                                         metadata_cases, transfer_cases, notification_cases,
                                         telemetry_cases};
  int ran = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ran += run_cases(all[i], prefix, report_case);
  if (ran == 0) fprintf(stderr, "no case begins with '%s'\n", prefix);
  return ran == 0 || failed_checks != 0;
}
