/* Every PE runs every case; one that fails says where, and the job ends with 1. */
#pragma once

#include <shmem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_SPEAKER() fprintf(stderr, "PE %d: ", shmem_my_pe())
#include "bindings/testing/check.h"

/* One for each file of cases. */
extern const struct test_case rma_cases[];
extern const struct test_case atomic_cases[];
extern const struct test_case wait_cases[];
extern const struct test_case team_cases[];
extern const struct test_case memory_cases[];
extern const struct test_case old_cases[];
extern const struct test_case generic_cases[];
extern const struct test_case example_cases[];

/* The PE after this one, and the one before. */
static inline int next_pe(void) { return (shmem_my_pe() + 1) % shmem_n_pes(); }
static inline int last_pe(void) { return (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes(); }
