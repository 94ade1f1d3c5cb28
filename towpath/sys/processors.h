// Which processors this process may use, how much of their time, and which of them are near each
// GPU: as findings. Thread: any.
#pragma once

#include <string>
#include <vector>

#include <sched.h>

#include <towpath/core/finding.h>
#include <towpath/core/result.h>
#include <towpath/sys/machine.h>

namespace towpath::sys {

/// The numbers of those that the scheduler may run this process on. Errors: not_found, corrupt.
Result<std::vector<unsigned>> allowed_processors(const MachineRoot& root = {});

/// The one that this thread runs on just now.
int current_processor() noexcept;
/// Those that the thread which makes this may run on at that time.
class ThreadProcessors {
 public:
  ThreadProcessors() noexcept;
  /// The calling thread runs on any other of them from now on, where there is one. Cost: a system
  /// call, and it moves.
  void keep_off(int processor) const noexcept;

 private:
  cpu_set_t all_;
};

/// How many processors, and whether a control group takes some of their time away.
Finding probe_processors(const MachineRoot& root = {});
/// How much memory the control groups leave.
Finding probe_memory_limit(const MachineRoot& root = {});
/// A finding for each GPU of NVIDIA on the PCI bus; none where there is none.
std::vector<Finding> probe_processors_near_gpus(const MachineRoot& root = {});

}  // namespace towpath::sys
