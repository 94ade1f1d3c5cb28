// Symmetric memory of a process that a launcher started, on one host or several.
// Thread: any; reading the environment races with setenv(3).
#pragma once

#include <towpath/core/result.h>
#include <towpath/shmem/context.h>

namespace towpath::standard {

/// This process's context, as the environment has it (shmem_environment.h). Collective. Errors:
/// shmem_bootstrap()'s and Context::open()'s; with PEs of several hosts also ShmemExchange's and
/// shmem::bootstrap_over_hosts()'s.
Result<shmem::Context> open_shmem(const shmem::ContextOptions& options = {});

}  // namespace towpath::standard
