#include <cerrno>

#include <sys/random.h>

#include <towpath/core/check.h>
#include <towpath/sys/random.h>

namespace towpath::sys {

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (value == 0) {
    const ssize_t got = ::getrandom(&value, sizeof value, 0);
    // Eight bytes come whole or not at all (getrandom(2)); only a signal may interrupt the wait.
    if (got < 0) TOWPATH_CHECK(errno == EINTR, "getrandom has been there since Linux 3.17");
    if (got != sizeof value) value = 0;
  }
  return value;
}

}  // namespace towpath::sys
