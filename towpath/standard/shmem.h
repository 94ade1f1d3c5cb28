// Symmetric memory of a process that a launcher started, on one host or several.
//
// PEs of several hosts meet where the environment says: "tcp://host:port?token-file=PATH", of one
// job at a time, at an address of PE 0's; "unix:PATH" for PEs that are started separately on one
// host. `towpath run --help` and the guide "Symmetric memory" name the variables.
// Thread: any; reading the environment races with setenv(3).
#pragma once

#include <towpath/core/result.h>
#include <towpath/shmem/context.h>

namespace towpath::standard {

/// This process's context, as its environment has it: alone, of one host's job, after a meeting
/// with the PEs of other hosts, or of a job of PMIx. Collective. Errors: invalid_argument (a
/// variable that cannot be read), denied or timed_out (the meeting), and Context::open()'s.
Result<shmem::Context> open_shmem(const shmem::ContextOptions& options = {});

}  // namespace towpath::standard
