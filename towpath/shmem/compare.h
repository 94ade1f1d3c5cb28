// Compare: what wait_until() and test() ask of a value. The numbers are those of OpenSHMEM's
// implementations, for the C doors.
// Thread: immutable.
#pragma once

#include <cstdint>

namespace towpath::shmem {

enum class Compare : std::uint8_t {
  equal = 0,
  not_equal = 1,
  greater = 2,
  less_equal = 3,
  less = 4,
  greater_equal = 5,
};

template <typename T>
constexpr bool holds(T value, Compare compare, T limit) noexcept {
  switch (compare) {
    case Compare::equal: return value == limit;
    case Compare::not_equal: return value != limit;
    case Compare::greater: return value > limit;
    case Compare::less_equal: return value <= limit;
    case Compare::less: return value < limit;
    case Compare::greater_equal: return value >= limit;
  }
  return false;
}

}  // namespace towpath::shmem
