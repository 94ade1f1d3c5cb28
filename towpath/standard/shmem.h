// Symmetric memory as started from outside: what `towpath run` puts into the environment of each
// PE, and what a PE reads there.
//
//   TOWPATH_SHMEM_PE    which one this is
//   TOWPATH_SHMEM_JOB   inherited descriptors: the job's control segment, then the heaps by PE
//   TOWPATH_SHMEM_HEAP  of a PE that was started alone: bytes of its heap ("64M")
//
// Thread: any; reading the environment races with setenv(3).
#pragma once

#include <towpath/core/result.h>
#include <towpath/shmem/context.h>
#include <towpath/standard/environment.h>

namespace towpath::standard {

/// Alone when nothing is said. The descriptors stay open, but pass to no further program.
/// Errors: invalid_argument (a variable that cannot be read), not_ready (descriptors that are not
/// open: they were not inherited).
Result<shmem::Bootstrap> shmem_bootstrap(const Environment& environment);

/// What a launcher adds to the environment of PE `pe`, which inherits `files`.
Environment shmem_variables(const shmem::JobFiles& files, int pe);

/// This process's context. Errors: as above, and Context::open()'s.
Result<shmem::Context> open_shmem(const shmem::ContextOptions& options = {});

}  // namespace towpath::standard
