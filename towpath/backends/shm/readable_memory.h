// ReadableMemory: which memory of another process can be read, as the kernel says.
//
// For a region its first and last byte are read. Of many regions in one mapping that holds nothing
// but the process's own memory, one is read, since what the kernel does with one page of it it does
// with all; that the others lie inside is looked up. So a list costs a look at the process's
// mappings and a read for each of them, where a region costs a read.
//
// What it finds is true when it is asked: a process may unmap its memory at any time, and then the
// copy itself fails. Thread: loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <sys/types.h>

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {

class ReadableMemory {
 public:
  /// `regions`: how many will be asked for; for few, the mappings are ignored.
  ReadableMemory(pid_t pid, std::size_t regions)
      : ReadableMemory(pid, regions, sys::open_process_mappings) {}
  /// `open`: what single mappings are asked of; where it fails, all are read before.
  using Open = Result<sys::Fd>(pid_t pid, const std::string& proc);
  ReadableMemory(pid_t pid, std::size_t regions, Open* open);

  /// `length` is at least 1. Errors: denied, unsupported, out_of_range (not mapped there),
  /// peer_lost.
  Status check(std::uint64_t address, std::uint64_t length);

 private:
  struct Known {
    sys::ProcessMapping mapping;
    bool is_proven = false;
  };

  /// Null: none that is known to be alike all over.
  Known* mapping_of(std::uint64_t address, std::uint64_t length);
  Known* find(std::uint64_t address);

  const pid_t pid_;
  sys::Fd single_;                        // to ask for a mapping
  std::map<std::uint64_t, Known> known_;  // by their begin
  Known* last_ = nullptr;
};

}  // namespace towpath::backends::shm
