// Bootstrap: how a PE finds its job. A value: the environment is read above (standard/shmem.h).
// Thread: none of its own.
#pragma once

#include <optional>

#include <towpath/core/clock.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/unique_id.h>

namespace towpath::shmem {

/// One of three: alone (nothing set), with the descriptors of a job that somebody made (`files`),
/// or with an identifier that all PEs were given (`unique_id`).
struct Bootstrap {
  int my_pe = 0;
  int pes = 1;
  std::optional<JobFiles> files;
  std::optional<UniqueId> unique_id;
  /// Alone, and with an identifier, where PE 0 makes the heaps.
  std::uint64_t heap_bytes = kDefaultHeapBytes;
};

struct Patience {
  /// For all PEs to begin.
  Duration to_start = std::chrono::seconds(60);
  /// For any later wait; the failure then says who has not come, and what it is doing.
  Duration to_wait = Duration::max();
};

/// The job's descriptors, whichever way. Errors: invalid_argument (PE, count), timed_out,
/// denied, or create_job's.
Result<JobFiles> obtain(Bootstrap bootstrap, const Patience& patience);

}  // namespace towpath::shmem
