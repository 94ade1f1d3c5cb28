// Huge pages for memory that processes share in memfds (memfd.h); huge_pages.h has those of one
// process.
//
// Reserved ones are of the memfd itself; transparent ones are a wish of each mapping, and the
// kernel's answer stands in shmem_enabled, beside that for memory of one process.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/huge_pages.h>

namespace towpath::sys {

struct SharedPages {
  std::uint64_t size_bytes = 0;  ///< of each memfd
  std::uint64_t count = 1;       ///< of memfds
  std::string sys = "/sys";
};

/// The smallest reserved pages that are free for all of it, and of which each memfd has whole ones.
/// Errors: invalid_argument (no page size divides the bytes), exhausted (too few are free; the
/// message says how many), unsupported (the kernel has none).
Result<HugePagePool> choose_reserved_pages(const SharedPages& wanted);

/// Wishes transparent pages for what of a mapping of a memfd has not been touched by anybody yet.
/// They come where begin and end of a page are those of the file's too. Errors: unsupported
/// (they are off for shared memory; the message has the kernel's setting), denied.
Status ask_for_transparent_pages(ByteSpan mapped, const std::string& sys = "/sys");

}  // namespace towpath::sys
