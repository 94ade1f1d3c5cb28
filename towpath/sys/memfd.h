// Sealed memfds: shared memory that no side can shrink under the other.
//
// A process that maps an unauthenticated peer's file dies by SIGBUS when the unauthenticated
// connection truncates it. A memfd whose size is sealed cannot be truncated, so both sides can load
// and store without fear. A memfd has no name in any file system: nothing is left behind when all
// its processes die. Thread: any.
#pragma once

#include <cstdint>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::sys {

/// Zeroed shared memory of exactly `size_bytes`, sealed against shrinking, growing and further
/// seals, close-on-exec. `name` is only seen in /proc/<pid>/fd; at most 249 bytes of it are used.
/// With `huge_page_bytes` it lies in reserved pages of that size, of which it has whole ones
/// (shared_pages.h); they are set aside at once.
/// Errors: invalid_argument (size 0, or no whole pages), exhausted, unsupported (no memfd: Linux
/// before 3.17; none in huge pages that can be sealed: before 4.16).
/// Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
Result<Fd> create_sealed_memfd(std::string_view name, std::uint64_t size_bytes,
                               std::uint64_t huge_page_bytes = 0);

/// Whether `fd`, which came from someone else, is safe to map for `at_least_bytes`.
/// Errors: denied (not a memfd, or its size is not sealed; the message says which seal is missing),
/// out_of_range (smaller than promised), invalid_argument (not open).
Status check_sealed(int fd, std::uint64_t at_least_bytes);

}  // namespace towpath::sys
