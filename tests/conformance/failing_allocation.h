// The n-th allocation fails: a program with this has an operator new of its own.
// Thread: any, but what is counted are the allocations of all.
#pragma once

#include <cstdint>
#include <new>

namespace towpath::testing {

/// From now on, of all allocations the one behind `n` others fails.
void fail_allocation(std::int64_t n) noexcept;
/// False: there were not so many.
bool stop_failing() noexcept;

/// Whether `call` returned, and did not run out of memory.
template <typename Call>
bool survives(const Call& call) {
  try {
    call();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace towpath::testing
