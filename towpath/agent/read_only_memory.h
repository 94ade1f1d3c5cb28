// ReadOnlyMemory: which memory of this process nobody can write to, as the kernel says.
//
// Asked once for a list of regions that is registered; only of memory that this library has not
// mapped itself. What the kernel does not know counts as writable: then a write fails where it
// happens. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include <towpath/core/descriptor.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/process.h>

namespace towpath::agent {

class ReadOnlyMemory {
 public:
  ReadOnlyMemory() : ReadOnlyMemory(sys::open_process_mappings) {}
  /// `opener`: what single mappings are asked of; where it fails, all are read.
  using Open = Result<sys::Fd>(pid_t pid, const std::string& proc);
  explicit ReadOnlyMemory(Open* opener) noexcept : open_(opener) {}

  /// Before holds() is asked of it, and outside of locks. Cost: once two system calls; before Linux
  /// 6.11 all mappings are read.
  void open_for(const RegionDescriptor& region);
  /// Whether all of the region is. Cost: a system call, unless it lies in the mapping of the one
  /// before; before Linux 6.11 none.
  bool holds(const RegionDescriptor& region);

 private:
  void open();
  /// Null: not known.
  const sys::ProcessMapping* mapping_at(std::uint64_t address);

  Open* const open_;
  bool is_open_ = false;
  sys::Fd single_;                        // to ask for a mapping
  std::vector<sys::ProcessMapping> all_;  // instead of it, lowest first
  sys::ProcessMapping last_;
};

}  // namespace towpath::agent
