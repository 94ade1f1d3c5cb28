// Bootstrap: how a PE finds its job. A value: the environment is read above
// (standard/shmem_environment.h).
// Thread: none of its own.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/messages/network.h>
#include <towpath/shmem/remote.h>
#include <towpath/shmem/unique_id.h>

namespace towpath::shmem {

/// One of four: alone (nothing set), with the descriptors of a job that somebody made (`files`),
/// with an identifier that all PEs were given (`unique_id`; they meet as hosts.h has it), or, when
/// there are PEs on several hosts, with the descriptors of this one's and the way to the others.
struct Bootstrap {
  int my_pe = 0;
  int pes = 1;
  std::optional<JobFiles> files;
  std::optional<UniqueId> unique_id;
  /// A number for each PE's host. With `files`, of which those of heaps elsewhere are none.
  std::vector<std::uint32_t> hosts;
  std::unique_ptr<Remote> remote;
  /// Alone, and with an identifier, where PE 0 makes the heaps.
  std::uint64_t heap_bytes = kDefaultHeapBytes;
  HeapPages pages;
  NetworkOptions network;  ///< with an identifier
};

struct Timeouts {
  /// For all PEs to begin.
  Duration to_start = std::chrono::seconds(60);
  /// For any later wait; the failure then says who has not come, and what it is doing.
  Duration to_wait = Duration::max();
  /// For a PE of this host that a signal has stopped, before it is given up; max: never. Those
  /// of other hosts: Heartbeat.
  Duration with_stopped = std::chrono::seconds(5);
};

/// The job's descriptors: those given, or of one that is alone. Errors: invalid_argument (PE,
/// count), or create_job's.
Result<JobFiles> obtain(Bootstrap bootstrap);

}  // namespace towpath::shmem
