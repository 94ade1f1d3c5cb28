// Random numbers from the kernel, for what must not repeat: incarnations, tokens, names.
//
// It is not a generator for tests or simulation: those take a seed.
// Thread: any.
#pragma once

#include <cstdint>

namespace towpath::sys {

/// 64 random bits, never 0. Cost: a system call.
std::uint64_t random_u64();

}  // namespace towpath::sys
