/* Checks of what the functions of nixl_capi.h answer, and the files of cases. */
#pragma once

#include <stdbool.h>

#include "bindings/testing/check.h"
#include "nixl_capi.h"

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

/* One for each file of cases. */
extern const struct test_case list_cases[];
extern const struct test_case agent_cases[];
extern const struct test_case memory_cases[];
extern const struct test_case metadata_cases[];
extern const struct test_case transfer_cases[];
extern const struct test_case notification_cases[];
extern const struct test_case telemetry_cases[];
