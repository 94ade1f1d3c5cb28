// ProcessCopy: one slice by process_vm_readv/writev, for memory that cannot be mapped.
//
// It gathers extents from the cursor on into system calls, of which several threads make one each
// at the same time, and accounts exactly for what the kernel says it moved: an extent that the
// kernel stops at is named with the bytes that arrived, and what lies behind it is asked for again.
//
//   cursor -> | part 0: this thread | part 1: a member of the pool | ...
//
// Whether the pool helps depends on who else wants the processors: it is measured all the time.
// Source: process_vm_readv(2). The addresses are the peer's; the kernel checks them, so a peer's
// lie is an EFAULT and not a fault of ours. The kernel pins and copies page by page, at a quarter
// of what loads and stores have: hence the threads. Thread: loop. Cost: one system call per part,
// no allocation.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <vector>

#include <sys/types.h>
#include <sys/uio.h>

#include <towpath/backend/slice_runner.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/core/clock.h>
#include <towpath/core/current_choice.h>
#include <towpath/core/result.h>
#include <towpath/run/fork_join_pool.h>

namespace towpath::backends::shm {

/// Whose memory is copied. After an exec() the pid is the same, and the memory is another
/// program's: a token that lies in it says whose it is.
struct PeerProgram {
  pid_t pid = 0;
  std::uint64_t token_address = 0;  ///< there; 0: not known, and the pid is believed
  SocketToken token{};
};

/// Looks whether its memory is still that of the program. Errors: peer_lost (another one's),
/// denied, unsupported.
Status check_program(const PeerProgram& program);

class ProcessCopy {
 public:
  /// `threads` that copy at most, the one that calls among them. The others begin with the first
  /// copy that is long enough. `clock` outlives it.
  ProcessCopy(const Clock& clock, std::size_t threads);
  ~ProcessCopy();

  /// Moves or fails some extents with the remote memory at the cursor. `budget` as in
  /// SliceTask::copy. False: the kernel did not take all that it was asked for. A failure is one of
  /// the whole operation: peer_lost, denied. What was read counts only where the token was read
  /// with it, by the same system call and so from the same memory.
  Result<bool> move(const PeerProgram& from, backend::SliceTask& task, std::uint64_t& budget);

  /// Why fewer threads copy than were asked for, once it is known.
  const Status& shortage() const noexcept { return shortage_; }
  std::size_t threads() const noexcept { return parts_.size(); }

 private:
  struct Part;

  /// Fills parts from the cursor on; how many.
  std::size_t gather(const backend::SliceTask& task);
  /// Copies that many parts; how many it did.
  std::size_t copy(std::size_t parts, const PeerProgram& from, bool pulls);
  static Status account(const Part& part, const PeerProgram& from, backend::SliceTask& task);

  enum Way : std::size_t { alone, together };

  const Clock& clock_;
  std::vector<std::unique_ptr<Part>> parts_;  // one for each thread
  run::ForkJoinPool pool_;
  CurrentChoice way_;
  Status shortage_;
};

/// Reads the first and the last byte of [address, +length) of a process, to see whether it can be
/// done. `length` is at least 1. Errors: denied, unsupported, out_of_range (not mapped there),
/// peer_lost.
Status try_process_memory(pid_t pid, std::uint64_t address, std::uint64_t length);

}  // namespace towpath::backends::shm
