// Memfds of other processes, opened through /proc/<pid>/fd without the other's help.
//
// What is opened was named by the peer and is hostile: it is examined (O_PATH) before it is really
// opened, so a fifo cannot block and a device is not touched; it must be the very file that was
// named, and sealed, so that loads cannot end in SIGBUS because somebody cut it.
// Source: proc(5); following the link needs PTRACE_MODE_READ_FSCREDS: the same user and a dumpable
// process, or CAP_SYS_PTRACE. Yama does not restrict it.
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include <towpath/backends/shm/host_facts.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::shm {

struct PeerFile {
  pid_t pid = 0;
  FileRef file;
  bool writable = false;
  /// Which its maker gave the memfd; empty: any. What a peer's users can write to has names of
  /// theirs.
  std::string_view name = {};
};

/// Errors: not_found (no such process or descriptor), denied (permissions, seals), corrupt (another
/// file).
Result<sys::Fd> open_peer_file(const PeerFile& what);

/// The place of a socket that a peer named, which can be connected to as /proc/self/fd/<it>.
/// Errors: not_found, denied, corrupt (another file, or no socket).
Result<sys::Fd> open_peer_socket(pid_t pid, const FileRef& file);

/// The whole of a peer's memfd in this process.
class PeerMapping {
 public:
  /// Errors: those of open_peer_file and Mapping::of_file.
  static Result<std::shared_ptr<PeerMapping>> open(const PeerFile& what);

  const FileRef& file() const noexcept { return file_; }
  std::uint64_t size() const noexcept { return mapping_.size(); }
  std::uint64_t address() const noexcept { return address_of(mapping_.data()); }

 private:
  PeerMapping(FileRef file, sys::Mapping mapping) noexcept
      : file_(file), mapping_(std::move(mapping)) {}
  FileRef file_;
  sys::Mapping mapping_;
};

/// Maps each memfd of one peer once, however many regions lie in it.
class PeerMappings {
 public:
  /// Anew where what is mapped ends before `end`: a memfd that is sealed against shrinking alone
  /// grows. As long as the memfd is now, which may be less. Errors: those of PeerMapping::open.
  Result<std::shared_ptr<PeerMapping>> find_or_open(const PeerFile& what, std::uint64_t end);

 private:
  using File = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

  std::map<File, std::weak_ptr<PeerMapping>> open_;
  std::size_t forget_at_ = 64;  // entries: then those that nobody uses any more go
};

}  // namespace towpath::backends::shm
