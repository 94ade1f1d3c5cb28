// How many seeds, or processes, a test goes through: a third of them under a sanitizer, where each
// costs three to ten times as much. The other builds do all of them.
#pragma once

#include <cstdint>

namespace towpath {

constexpr std::uint64_t seeds_of(std::uint64_t usual) noexcept {
#if defined(TOWPATH_ASAN) || defined(__SANITIZE_THREAD__)
  return (usual + 2) / 3;
#else
  return usual;
#endif
}

}  // namespace towpath
