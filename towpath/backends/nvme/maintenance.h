// What transfers do not say: make writes last, and give blocks back. Each waits for the drive.
//
//   auto drive = driver->open("/dev/ng0n1", Access::read_write);   // the driver of the backend
//   deallocate(**drive, ranges);
//
// Thread: any. Not for the data path.
#pragma once

#include <span>

#include <towpath/backends/nvme/driver.h>

namespace towpath::backends::nvme {

/// After this, writes that had completed before survive a power failure. Harmless without a
/// volatile cache. Errors: as failure_of().
Status flush(Namespace& target);

/// Informs the drive that these blocks hold nothing any more. What they read as afterwards is the
/// drive's choice (mostly zeros): write before reading. Any number of ranges; 256 go in a command.
/// Errors: invalid_argument (no blocks), out_of_range, denied (not open for writing), unsupported,
/// or as failure_of(); the message says how many ranges went before.
Status deallocate(Namespace& target, std::span<const BlockRange> ranges);

}  // namespace towpath::backends::nvme
