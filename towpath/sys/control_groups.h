// Control groups: what holds this process back where the machine would not: memory, and the time of
// processors.
//
// The limit of a group holds for those below it, so each is asked from this process's own up to the
// root of what it sees; in a container that root is the container's group. Version 2, and version 1
// as well. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <towpath/core/result.h>
#include <towpath/sys/machine.h>

namespace towpath::sys {

struct MemoryLimit {
  std::string group;  ///< its directory
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;  ///< with the page cache and what is pinned

  std::uint64_t room() const noexcept { return bytes > used ? bytes - used : 0; }
};

struct ProcessorLimit {
  std::string group;
  double processors = 0;  ///< of their time, within each period
};

/// That with the least room; nothing where no group has one. Errors: not_found (no groups are
/// mounted, or this process cannot ask), corrupt.
Result<std::optional<MemoryLimit>> memory_limit(const MachineRoot& root = {});
/// The smallest. Errors: as above.
Result<std::optional<ProcessorLimit>> processor_limit(const MachineRoot& root = {});

}  // namespace towpath::sys
