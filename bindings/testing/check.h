/* The little that a test in C needs: checks that go on counting, and cases by name.
 *
 * A check that fails says where, and the program ends with 1. No case depends on another one. Where
 * several processes run one program, CHECK_SPEAKER(), defined before this, says which one speaks.
 */
#pragma once

#include <stdio.h>
#include <string.h>

/* The program has one; its exit status is whether it is 0. */
extern int failed_checks;

#ifndef CHECK_SPEAKER
#define CHECK_SPEAKER() ((void)0)
#endif

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      CHECK_SPEAKER();                                                        \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failed_checks;                                                        \
    }                                                                         \
  } while (0)

/* A file of cases is an array of these, with an empty one at its end. */
struct test_case {
  const char* name;
  void (*run)(void);
};

/* Runs those whose names begin so; `after` each, with whether it was good. How many. */
static inline int run_cases(const struct test_case* cases, const char* prefix,
                            void (*after)(const char* name, int good)) {
  int ran = 0;
  for (; cases->name != NULL; ++cases) {
    if (strncmp(cases->name, prefix, strlen(prefix)) != 0) continue;
    const int before = failed_checks;
    cases->run();
    after(cases->name, failed_checks == before);
    ++ran;
  }
  return ran;
}

static inline void report_case(const char* name, int good) {
  printf("%s %s\n", good ? "good  " : "FAILED", name);
}
