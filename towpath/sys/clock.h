// SystemClock: the kernel's time. What decides by time receives a Clock and does not ask whether it
// is this one; what sleeps in the kernel (`run/`, `shmem/`) knows no other.
// Thread: any.
#pragma once

#include <towpath/core/clock.h>

namespace towpath::sys {

class SystemClock final : public Clock {
 public:
  /// CLOCK_BOOTTIME: never goes back, goes on while the machine sleeps (leases end), the same in
  /// all processes; no clock sees a virtual machine's pause. Cost: no system call (vDSO).
  Instant now() const noexcept override;
  /// CLOCK_REALTIME: may jump.
  Duration since_epoch() const noexcept override;
};

/// One that outlives its users.
const SystemClock& system_clock() noexcept;

}  // namespace towpath::sys
