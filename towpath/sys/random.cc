#include <algorithm>
#include <cerrno>

#include <sys/random.h>

#include <towpath/core/check.h>
#include <towpath/sys/random.h>

namespace towpath::sys {

void random_u64s(std::span<std::uint64_t> into) {
  TOWPATH_CHECK(into.size() <= kMostRandom, "more would come in parts");
  bool complete = false;
  while (!complete) {
    const ssize_t got = ::getrandom(into.data(), into.size_bytes(), 0);
    // 256 bytes come whole or not at all (getrandom(2)); only a signal may interrupt the wait.
    if (got < 0) TOWPATH_CHECK(errno == EINTR, "getrandom has been there since Linux 3.17");
    complete = got == static_cast<ssize_t>(into.size_bytes()) &&
               std::ranges::find(into, std::uint64_t{0}) == into.end();
  }
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  random_u64s({&value, 1});
  return value;
}

}  // namespace towpath::sys
