// Whether an open file can be read and written past the page cache, really.
//
// open(O_DIRECT) alone proves little: some file systems accept the flag and fail the first read,
// tmpfs (Linux 6.6 on) accepts it and keeps the bytes in memory.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace towpath::sys {

struct DirectProbe {
  bool direct = false;
  std::uint64_t alignment = 1;  ///< of offset, length and memory; 1 when not direct
  std::string refusal;          ///< why not; empty when direct
  std::string signal;           ///< what was examined
};

/// Looks at `fd`, which was opened with O_DIRECT: statx(STATX_DIOALIGN) where the kernel has it
/// (Linux 6.1), else a drive's length of a block, or of others one aligned read of 4096 bytes; when
/// a file is empty and `writable`, one write, to a file without a name in its directory, if one can
/// be made there. Nothing is written to `fd`.
DirectProbe probe_direct(int fd, bool writable);

}  // namespace towpath::sys
