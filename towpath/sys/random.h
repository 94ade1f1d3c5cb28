// Random numbers from the kernel, for what must not repeat: incarnations, tokens, names.
//
// It is not a generator for tests or simulation: those take a seed.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace towpath::sys {

/// 64 random bits, never 0. Cost: a system call.
std::uint64_t random_u64();

/// As many such numbers. Cost: a system call.
void random_u64s(std::span<std::uint64_t> into);

}  // namespace towpath::sys
