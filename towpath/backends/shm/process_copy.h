// ProcessCopy: one slice by process_vm_readv/writev, for memory that cannot be mapped.
//
// It gathers stretches from the cursor on into one system call and accounts exactly for what the
// kernel says it moved: a stretch that the kernel stops at is named with the bytes that arrived.
// Source: process_vm_readv(2). The addresses are the peer's; the kernel checks them, so a peer's
// lie is an EFAULT and not a fault of ours. Thread: loop. Cost: one system call per slice, no
// allocation.
#pragma once

#include <array>
#include <climits>
#include <cstdint>

#include <sys/types.h>
#include <sys/uio.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/core/result.h>

namespace towpath::backends::shm {

class ProcessCopy {
 public:
  /// Moves or fails some stretches with the remote memory at the cursor. `budget` as in
  /// SliceTask::copy. False: the kernel did not take all that it was asked for. A failure is one of
  /// the whole operation: peer_lost, denied.
  Result<bool> move(pid_t pid, backend::SliceTask& task, std::uint64_t& budget);

 private:
  std::array<iovec, IOV_MAX> here_;
  std::array<iovec, IOV_MAX> there_;
};

/// Reads the first and the last byte of [address, +length) of a process, to see whether it can be
/// done. `length` is at least 1. Errors: denied, unsupported, out_of_range (not mapped there),
/// peer_lost.
Status try_process_memory(pid_t pid, std::uint64_t address, std::uint64_t length);

}  // namespace towpath::backends::shm
