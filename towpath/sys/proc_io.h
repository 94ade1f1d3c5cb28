// The kernel's own count of what this process read and wrote, to check our counts against.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::sys {

/// Bytes since the process began; proc(5), /proc/<pid>/io.
struct ProcIo {
  std::uint64_t read_chars = 0;     ///< rchar: asked of read calls, page cache and pipes included
  std::uint64_t written_chars = 0;  ///< wchar
  std::uint64_t read_bytes = 0;     ///< fetched from storage
  std::uint64_t written_bytes = 0;  ///< sent towards storage, when pages became dirty
  std::uint64_t cancelled_write_bytes = 0;

  friend bool operator==(const ProcIo&, const ProcIo&) = default;
};

/// Errors: corrupt (a counter is missing or is no number).
Result<ProcIo> parse_proc_io(std::string_view text);

/// Errors: denied, not_found (a kernel without task I/O accounting), corrupt.
Result<ProcIo> read_proc_io(const std::string& path = "/proc/self/io");

}  // namespace towpath::sys
