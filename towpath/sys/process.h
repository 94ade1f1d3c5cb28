// Other processes of this machine: whether they live, and their memory.
//
// It starts and ends no process.
// Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include <towpath/core/finding.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/io_part.h>

namespace towpath::sys {

/// A descriptor that stands for the process and becomes readable when it ends (pidfd_open(2), Linux
/// 5.3). It never comes to mean another process. Errors: peer_lost (no such process), unsupported.
Result<Fd> open_process(pid_t pid);

/// Whether a process has this number now, which may be another than the one that was meant. False
/// of what is no process's number.
bool process_exists(std::uint64_t number) noexcept;

/// Whether the process behind `process`, from open_process, has ended.
bool has_ended(const Fd& process) noexcept;

/// When the process began, in clock ticks since boot (/proc/<pid>/stat, field 22). A pid with
/// another start time is another process. Errors: peer_lost, corrupt.
Result<std::uint64_t> process_start_time(pid_t pid, const std::string& proc = "/proc");

/// Whether a signal (SIGSTOP, SIGTSTP) has stopped the process: a debugger that looks at it does
/// not count. Errors: as above.
Result<bool> process_is_stopped(pid_t pid, const std::string& proc = "/proc");

/// Copies bytes of another process into ours (process_vm_readv(2)): the parts of each side are one
/// stream, however they are cut. Returns when all bytes are there, and reports how many.
/// Cost: a system call per 256 parts. No allocation.
/// Errors: invalid_argument (the two sides differ in length), peer_lost (the process ended), denied
/// (the message has the hint), out_of_range (bytes that are not mapped), unsupported. A failure
/// reports how many bytes had arrived; those are spoilt.
Result<std::uint64_t> read_process_memory(pid_t pid, std::span<const IoPart> local,
                                          std::span<const RemotePart> remote);
/// The same, from us to the other process.
Result<std::uint64_t> write_process_memory(pid_t pid, std::span<const IoPart> local,
                                           std::span<const RemotePart> remote);

/// One line of /proc/<pid>/maps (proc(5)).
struct ProcessMapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< behind the last byte
  /// Readable, and the process's own memory: no file, no device and nothing of the kernel's is
  /// behind it, so that what can be done with one of its pages can be done with all.
  bool is_plain = false;
  bool is_writable = false;  ///< by the process, as it is now
};

/// The mappings of a process, lowest first. Errors: those of reading the file.
Result<std::vector<ProcessMapping>> process_mappings(pid_t pid, const std::string& proc = "/proc");
/// To ask for single mappings, which is cheap however many there are (PROCMAP_QUERY, Linux 6.11).
/// Errors: unsupported (an older kernel), and those of opening the file.
Result<Fd> open_process_mappings(pid_t pid, const std::string& proc = "/proc");
/// The one that holds this address. Errors: not_found (nothing is mapped there).
Result<ProcessMapping> process_mapping_at(const Fd& mappings, std::uint64_t address);

/// Whether this process can read the memory of another one of the same user: looks at Yama's
/// ptrace_scope below `proc`, and reads a byte of its own.
Finding probe_process_memory(const std::string& proc = "/proc");

}  // namespace towpath::sys
