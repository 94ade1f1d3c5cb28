/* One side of bench/oshmem.py: what the calls of shmem.h cost, whosever they are. PE 0 prints a
 * name and nanoseconds for each; the other PEs take part, or wait in a barrier. With 2 PEs also
 * what is between them. */
#define _POSIX_C_SOURCE 199309L
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSmall = 4096, kLarge = 16 << 20 };

static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE], sync[4][SHMEM_REDUCE_SYNC_SIZE];
/* On the heap: variables are another way into OSHMEM. */
static long* words; /* a flag, a sum, a number to add */
static char *small, *large, *local;

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void report(const char* name, double begin, long times) {
  if (shmem_my_pe() == 0) printf("%s\t%.2f\n", name, (now_ns() - begin) / (double)times);
}

#define MEASURE(NAME, TIMES, BODY)     \
  do {                                 \
    const long times = (TIMES);        \
    const double begin = now_ns();     \
    for (long i = 0; i < times; ++i) { \
      BODY;                            \
    }                                  \
    report(NAME, begin, times);          \
  } while (0)

/* By PE 0, while the others wait. */
static void alone(void) {
  static const struct {
    size_t bytes;
    const char *put, *get;
  } sizes[] = {{8, "put and quiet, 8 B", "get, 8 B"},
               {512, "put and quiet, 512 B", "get, 512 B"},
               {kSmall, "put and quiet, 4 KiB", "get, 4 KiB"}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    MEASURE(sizes[s].put, 200000, shmem_putmem(small, local, sizes[s].bytes, 1); shmem_quiet());
    MEASURE(sizes[s].get, 200000, shmem_getmem(local, small, sizes[s].bytes, 1));
  }
  const double begin = now_ns();
  for (long i = 0; i < 400000; ++i) shmem_putmem_nbi(small, local, 8, 1);
  shmem_quiet();
  report("put, non-blocking, 8 B, one of many", begin, 400000);
  MEASURE("fetch-add", 200000, shmem_long_atomic_fetch_add(&words[0], 1, 1));
  MEASURE("compare-swap", 200000, shmem_long_atomic_compare_swap(&words[0], 0, 1, 1));
  MEASURE("put, 64 KiB", 4000, shmem_putmem(large, local, 64 << 10, 1); shmem_quiet());
  MEASURE("put, 1 MiB", 400, shmem_putmem(large, local, 1 << 20, 1); shmem_quiet());
  MEASURE("put, 16 MiB", 20, shmem_putmem(large, local, kLarge, 1); shmem_quiet());
  MEASURE("memcpy, 16 MiB (no library)", 20, memcpy(large, local, kLarge));
}

/* There and back, by PE 0 and PE 1. */
static void ping_pong(void) {
  const int me = shmem_my_pe();
  words[0] = 0;
  shmem_barrier_all();
  if (me < 2)
    MEASURE("8 bytes there and back", 20000,
            if (me == 1) shmem_long_wait_until(&words[0], SHMEM_CMP_EQ, i + 1);
            shmem_long_p(&words[0], i + 1, 1 - me);
            if (me == 0) shmem_long_wait_until(&words[0], SHMEM_CMP_EQ, i + 1));
  shmem_barrier_all();
}

int main(int argc, char** argv) {
  (void)argv;
  shmem_init();
  if (argc > 1) { /* "start": nothing more */
    shmem_finalize();
    return 0;
  }
  words = shmem_malloc(3 * sizeof *words);
  small = shmem_malloc(kSmall);
  large = shmem_malloc(kLarge);
  words[0] = words[1] = 0;
  words[2] = 1;
  local = malloc(kLarge);
  memset(local, 1, kLarge);
  memset(large, 2, kLarge);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < SHMEM_REDUCE_SYNC_SIZE; ++j) sync[i][j] = SHMEM_SYNC_VALUE;
  shmem_barrier_all();
  if (shmem_n_pes() == 2) {
    if (shmem_my_pe() == 0) alone();
    shmem_barrier_all();
    ping_pong();
  }
  MEASURE("barrier", 2000, shmem_barrier_all());
  /* Of OpenSHMEM 1.4: Open MPI has no teams. */
  const int pes = shmem_n_pes();
  MEASURE("sum of one long", 1000,
          shmem_long_sum_to_all(&words[1], &words[2], 1, 0, 0, pes, work, sync[i % 2]));
  MEASURE("broadcast of 4 KiB", 1000,
          shmem_broadcast64(large, large + kSmall, kSmall / 8, 0, 0, 0, pes, sync[2 + i % 2]));
  free(local);
  shmem_finalize();
  return 0;
}
