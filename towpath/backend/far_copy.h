// far_copy(): a copy of bytes that go past the caches, for transfers that no cache would hold.
//
// A store into a line that is in no cache reads the line first, so such a copy moves three bytes
// for each byte; a store that goes past the caches (non-temporal) moves two. The C library does so,
// too, but from a size on that it computes from caches of the whole machine, and that a virtual
// machine reports wrongly. Measured by bench/pull on 2 cores of an EPYC with 32 MiB of L3: 16 MiB
// come at 10.8 GB/s where memmove() has 7.1, 64 MiB at 7.9 and 6.0; 4 MiB, which the caches hold,
// would come more slowly. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towpath::backend {

/// From so many bytes in one transfer on: source and target together fill 32 MiB of cache.
inline constexpr std::uint64_t kFarBytes = 16 * 1024 * 1024;

/// As memmove(). Other threads see the bytes in the order of this one's later stores.
void far_copy(std::byte* target, const std::byte* source, std::size_t length) noexcept;

}  // namespace towpath::backend
