// ReadOnlyMemory: which memory of this process nobody can write to, as the kernel says.
//
// Asked once for a list of regions that is registered; only of memory that this library has not
// mapped itself. What the kernel does not know counts as writable: then a write fails where it
// happens. Thread: one at a time; OwnMappings any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include <towpath/core/descriptor.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/process.h>

namespace towpath::agent {

/// Where single mappings of this process are asked for: opened once, since that takes four times as
/// long as the question. What a forked child inherits still answers of its parent.
class OwnMappings {
 public:
  using Open = Result<sys::Fd>(pid_t pid, const std::string& proc);
  explicit OwnMappings(Open* opener = sys::open_process_mappings) noexcept : open_(opener) {}

  /// Null: none can be asked for (before Linux 6.11), or just now none can be opened. Cost: the
  /// first time three system calls.
  const sys::Fd* file();

 private:
  Open* const open_;
  run::Mutex mutex_;
  bool is_unsupported_ TOWPATH_GUARDED_BY(mutex_) = false;
  sys::Fd file_ TOWPATH_GUARDED_BY(mutex_);  // stays once it is open
};

class ReadOnlyMemory {
 public:
  /// `mappings`: outlives this.
  explicit ReadOnlyMemory(OwnMappings& mappings) noexcept : mappings_(mappings) {}

  /// Before holds() is asked of it, and outside of locks. Cost: as file(); where that gives none,
  /// all mappings are read.
  void open_for(const RegionDescriptor& region);
  /// Whether all of the region is. Cost: a system call, unless it lies in the mapping of the one
  /// before; before Linux 6.11 none.
  bool holds(const RegionDescriptor& region);

 private:
  void open();
  /// Null: not known.
  const sys::ProcessMapping* mapping_at(std::uint64_t address);

  OwnMappings& mappings_;
  bool is_open_ = false;
  const sys::Fd* single_ = nullptr;       // to ask for a mapping
  std::vector<sys::ProcessMapping> all_;  // instead of it, lowest first
  sys::ProcessMapping last_;
};

}  // namespace towpath::agent
