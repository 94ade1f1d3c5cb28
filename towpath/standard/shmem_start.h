// How a process becomes a PE: what open_shmem() (shmem.h) does, in the steps that a library in
// another dialect takes one by one.
//
// Thread: any; reading the environment races with setenv(3).
#pragma once

#include <string>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/shmem/context.h>
#include <towpath/shmem/socket_bootstrap.h>
#include <towpath/standard/shmem_environment.h>

namespace towpath::standard {

/// What the environment says of this process (shmem_environment.h): alone, of one host's job, after
/// a meeting with the PEs of other hosts, or of a job of PMIx; the latter two are collective.
/// Errors: shmem_bootstrap()'s; SocketBootstrap's or PmixExchange's, and
/// shmem::bootstrap_over_hosts()'s.
Result<shmem::Bootstrap> bootstrap_shmem(const Environment& environment, Duration timeout);

/// Where an invitation leads. Errors: invalid_argument (the place, the token), not_found (its
/// file).
Result<shmem::SocketBootstrapOptions> meeting_of(const ShmemInvitation& invitation,
                                                 Duration timeout);

/// What a PE says as it starts where the environment asks for it, by OpenSHMEM's variables (1.6,
/// "Environment Variables"; NVSHMEM has them too): PE 0 at PREFIX_VERSION its library, and
/// at PREFIX_INFO which variables it reads; each PE at PREFIX_DEBUG what it was given. Whole lines,
/// or nothing. `prefix`: "SHMEM", say; `library`: its name and version.
std::string shmem_greeting(const Environment& environment, std::string_view prefix,
                           std::string_view library, const shmem::Context& context);

}  // namespace towpath::standard
