/* capi_test [PREFIX]: runs the cases whose name begins so. */
#include "check.h"

int failed_checks = 0;

static int run_all(const struct test_case* cases, const char* prefix) {
  int ran = 0;
  for (; cases->name != NULL; ++cases) {
    if (strncmp(cases->name, prefix, strlen(prefix)) != 0) continue;
    const int before = failed_checks;
    cases->run();
    printf("%s %s\n", failed_checks == before ? "good  " : "FAILED", cases->name);
    ++ran;
  }
  return ran;
}

int main(int argc, char** argv) {
  const char* prefix = argc > 1 ? argv[1] : "";
  const struct test_case* const all[] = {list_cases,     agent_cases,    memory_cases,
                                         metadata_cases, transfer_cases, notification_cases,
                                         telemetry_cases};
  int ran = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ran += run_all(all[i], prefix);
  if (ran == 0) fprintf(stderr, "no case begins with '%s'\n", prefix);
  return ran == 0 || failed_checks != 0;
}
