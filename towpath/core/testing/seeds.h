// How many seeds a test goes through: fewer where each access is examined, which takes three to ten
// times as long and is about memory, of which all seeds use much the same.
#pragma once

#include <algorithm>
#include <cstdint>

namespace towpath {

constexpr std::uint64_t seeds_of(std::uint64_t usual) noexcept {
#if defined(TOWPATH_ASAN) || defined(__SANITIZE_THREAD__)
  return std::max<std::uint64_t>(usual / 4, 1);
#else
  return usual;
#endif
}

}  // namespace towpath
