/* PEs share out work and count together: OpenSHMEM in C.
 *
 *   towpath-shmcc openshmem_primes.c -o primes && towpath run -n 4 -- ./primes
 */
#include <shmem.h>
#include <stdio.h>

enum { kLimit = 100000, kPiece = 1000 };

static int next_piece; /* PE 0's counts: static variables are symmetric */
static long found;     /* by this PE */
static long total;     /* by all */
static long of_all[64];

static int is_prime(long number) {
  if (number < 2) return 0;
  for (long divisor = 2; divisor * divisor <= number; ++divisor)
    if (number % divisor == 0) return 0;
  return 1;
}

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), pes = shmem_n_pes();

  /* Whoever is free takes the next piece: one atomic addition in PE 0's memory. */
  for (;;) {
    const long begin = kPiece * (long)shmem_atomic_fetch_inc(&next_piece, 0);
    if (begin >= kLimit) break;
    for (long number = begin; number < begin + kPiece; ++number) found += is_prime(number);
  }

  shmem_barrier_all();
  shmem_sum_reduce(SHMEM_TEAM_WORLD, &total, &found, 1);
  if (pes <= 64) shmem_collect(SHMEM_TEAM_WORLD, of_all, &found, 1);
  if (me == 0) {
    long sum = 0;
    for (int pe = 0; pe < pes && pe < 64; ++pe) sum += of_all[pe];
    printf("%d PEs found %ld primes below %d%s\n", pes, total, kLimit,
           pes > 64 || sum == total ? "" : ", or so they say");
  }
  shmem_finalize();
  return 0;
}
