// What names a process and its open files on this host, beyond a number that may be used again.
//
// It is no permission: what the names lead to is examined again when it is opened (peer.h,
// peer_file.h). Sources: proc(5), namespaces(7). Thread: immutable.
#pragma once

#include <array>
#include <cstdint>

#include <towpath/core/result.h>

namespace towpath::backends::shm {

inline constexpr std::uint32_t kMaxPid = 1u << 22;  ///< PID_MAX_LIMIT, linux/threads.h
inline constexpr std::int32_t kMaxFd = 1 << 30;     ///< far above any fs.nr_open in use

/// A process of this host, exactly.
struct HostFacts {
  std::array<char, 36> boot_id{};       ///< /proc/sys/kernel/random/boot_id
  std::uint32_t pid = 0;                ///< as its own pid namespace counts
  std::uint64_t start_time = 0;         ///< field 22 of /proc/<pid>/stat: a pid may be used again
  std::uint64_t pid_namespace = 0;      ///< inode of /proc/self/ns/pid
  std::uint64_t network_namespace = 0;  ///< abstract sockets are seen in one of these only
  std::uint32_t uid = 0;

  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

/// Of this process. Errors: those of reading /proc.
Result<HostFacts> read_host_facts();
/// Whether `peer` can be reached from `self` at all. Errors: unsupported (which of the facts is in
/// the way, and the hint).
Status check_same_host(const HostFacts& self, const HostFacts& peer);

/// An open file of a process: its descriptor there, and which file that was.
struct FileRef {
  std::int32_t fd = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const FileRef&, const FileRef&) = default;
};

/// Errors: invalid_argument (not open).
Result<FileRef> file_ref(int fd);

}  // namespace towpath::backends::shm
