// Symmetric memory as started from outside: what `towpath run` puts into the environment of each
// PE, and what a PE reads there. It needs no more than the heaps do: the C interfaces use it.
//
//   TOWPATH_SHMEM_PE    which one this is
//   TOWPATH_SHMEM_JOB   inherited descriptors: the job's control segment, then the heaps by PE; "-"
//                       for a heap of another host
//   TOWPATH_SHMEM_MEET  where PEs of several hosts meet (shmem.h); empty: they do not
//   TOWPATH_SHMEM_PES   how many of them there are
//   TOWPATH_SHMEM_HEAP  of a PE that `towpath run` did not start: bytes of its heap ("64M"); also
//                       SHMEM_SYMMETRIC_SIZE, and its old name SMA_SYMMETRIC_SIZE
//   SHMEM_VERSION, SHMEM_INFO, SHMEM_DEBUG  what a PE says at its start (shmem.h)
//   TOWPATH_SHMEM_HUGE_PAGES  as TOWPATH_SHMEM_HEAP: off, best_effort, required
//   TOWPATH_SHMEM_NODE  the NUMA node of this PE's heap
//   TOWPATH_SHMEM_NETWORK  between hosts: tcp or ucx; else UCX where all PEs have RDMA, without its
//                       TCP unless UCX_TLS says otherwise, and TCP where not
//   TOWPATH_SECURITY    tls: what goes between hosts is encrypted, by the certificates that
//                       TOWPATH_TLS_CERT_FILE, _KEY_FILE and _CA_FILE name, if they do;
//                       authenticated, or nothing: both sides of each connection are proven
//   PMIX_RANK           another launcher started it, which has PMIx
//   PMI_FD, PMI_SIZE    another launcher started it, with an older PMI, which is not spoken here
//
// Thread: any; reading the environment races with setenv(3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/hosts.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

/// What a user may set of symmetric memory; the rest is `towpath run`'s.
std::vector<Setting> shmem_settings();

/// Whether it is one of those above, written without TOWPATH_.
bool is_shmem_variable(std::string_view name) noexcept;

/// Of PEs on one host: who is invited to a job over several has an invitation. Alone when nothing
/// is said. The descriptors stay open, but pass to no further program.
/// Errors: invalid_argument (a variable that cannot be read), not_ready (descriptors that are not
/// open: they were not inherited).
Result<shmem::Bootstrap> shmem_bootstrap(const Environment& environment);

/// The name by which the environment says the size of heaps as OpenSHMEM has it: the old one where
/// only that is set.
std::string heap_variable(const Environment& environment);

/// As the environment has it, or the default. Errors: invalid_argument.
Result<std::uint64_t> shmem_heap_bytes(const Environment& environment);

/// Likewise. A node is no more than preferred: Context::heap_placement() reports what was had.
/// Errors: invalid_argument.
Result<shmem::HeapPages> shmem_heap_pages(const Environment& environment);

/// Between PEs of several hosts. Warns on standard error where UCX's TCP port is opened. Errors:
/// invalid_argument.
Result<shmem::NetworkOptions> shmem_network(const Environment& environment);

/// "off", "best_effort", "required". Errors: invalid_argument.
Result<sys::HugePages> parse_huge_pages(std::string_view text);

/// Whether a launcher with PMIx (mpirun, srun) has started this process, and not `towpath run`.
bool is_started_by_pmix(const Environment& environment);

/// A launcher whose PMI is not spoken here has started this process as one of several: each would
/// take itself for all. Errors: unsupported.
Status refuse_other_pmi(const Environment& environment);

/// To a job over several hosts.
struct ShmemInvitation {
  std::string place;  ///< where to meet: shmem.h
  shmem::Attendance self;
};

/// Nothing when this process is alone or of one host's job. Errors: as above.
Result<std::optional<ShmemInvitation>> shmem_invitation(const Environment& environment);

/// What a launcher adds to the environment of PE `pe`, which inherits `files`.
Environment shmem_variables(const shmem::JobFiles& files, int pe);

/// What it adds besides when all PEs are of this host: its own environment may have a place to
/// meet, as that of a PE of a job over several hosts does.
Environment shmem_variables_of_one_host();

/// What it adds for a PE whose heap shall lie on a NUMA node.
Environment shmem_variables_of_node(unsigned node);

/// What it adds where it was given a network and a security by name; empty: it was not.
Environment shmem_variables_of_network(std::string_view network, std::string_view security);

/// What it adds when PEs of several hosts meet at `place` (shmem.h).
Environment shmem_variables(std::string_view place, int pes);

}  // namespace towpath::standard
