// A job of PEs on several hosts: from what they say in an exchange to what World begins with.
//
// Each PE says which host it is on. Those of one host make a job of their own among themselves
// (job.h), unless a launcher made it. When there are others, all say in a second round where they
// can be reached, and the transport reaches them: a job of one host asks for no network.
// Thread: one at a time.
#pragma once

#include <optional>
#include <string>

#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/exchange.h>
#include <towpath/shmem/messages/network.h>

namespace towpath::shmem {

struct Attendance {
  int my_pe = 0;
  int pes = 1;
  std::uint64_t heap_bytes = kDefaultHeapBytes;  ///< PE 0's counts
  HeapPages pages;                               ///< `huge`: that of the first PE of a host counts
  std::optional<JobFiles> files;                 ///< of this host, if they were made already
  /// Two PEs are on one host when theirs are alike; empty: by the machine and its namespaces.
  std::string host;
  Duration timeout = std::chrono::seconds(60);
  NetworkOptions network;
};

/// Collective. Errors: invalid_argument (the PEs differ in what they know or ask for),
/// unsupported (no UCX), exhausted,
/// Exchange's, and create_job()'s.
Result<Bootstrap> bootstrap_over_hosts(Exchange& exchange, Attendance attendance);

/// The same, where PEs meet by an identifier. Collective. Errors also: SocketBootstrap's.
Result<Bootstrap> bootstrap_by_id(const UniqueId& id, Attendance attendance);

/// The machine since its start, and the namespaces that shared memory needs to be the same.
Result<std::string> name_of_this_host();

}  // namespace towpath::shmem
