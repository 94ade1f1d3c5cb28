/* The little that a test in C needs: checks that go on counting, and a main that names the cases.
 *
 * A check that fails says where, and the program ends with 1. No case depends on another one.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nixl_capi.h"

extern int failed_checks;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      ++failed_checks;                                                        \
    }                                                                         \
  } while (0)

#define CHECK_IS(call, wanted)                                                                \
  do {                                                                                        \
    const int got_ = (int)(call);                                                             \
    if (got_ != (int)(wanted)) {                                                              \
      fprintf(stderr, "%s:%d: %s is %d, not %s\n", __FILE__, __LINE__, #call, got_, #wanted); \
      ++failed_checks;                                                                        \
    }                                                                                         \
  } while (0)

#define OK(call) CHECK_IS(call, NIXL_CAPI_SUCCESS)
#define INVALID(call) CHECK_IS(call, NIXL_CAPI_ERROR_INVALID_PARAM)
#define BACKEND(call) CHECK_IS(call, NIXL_CAPI_ERROR_BACKEND)
#define NOT_FOUND(call) CHECK_IS(call, NIXL_CAPI_ERROR_NOT_FOUND)

struct test_case {
  const char* name;
  void (*run)(void);
};

/* Each file of cases has one of these, with an empty one at its end. */
extern const struct test_case list_cases[];
extern const struct test_case agent_cases[];
extern const struct test_case memory_cases[];
extern const struct test_case metadata_cases[];
extern const struct test_case transfer_cases[];
extern const struct test_case notification_cases[];
extern const struct test_case telemetry_cases[];
