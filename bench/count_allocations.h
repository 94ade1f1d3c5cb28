// Counts what this program allocates: count_allocations.cc replaces operator new for all of it.
// Thread: any.
#pragma once

#include <cstdint>

namespace towpath::bench {

/// Calls of operator new by any thread, since the program began.
std::uint64_t allocations() noexcept;

}  // namespace towpath::bench
