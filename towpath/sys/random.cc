#include <cerrno>

#include <sys/random.h>

#include <towpath/core/check.h>
#include <towpath/sys/random.h>

namespace towpath::sys {

void random_u64s(std::span<std::uint64_t> into) {
  auto left = std::as_writable_bytes(into);
  while (!left.empty()) {
    // More than 256 bytes may come in parts (getrandom(2)), where a signal comes between.
    const ssize_t got = ::getrandom(left.data(), left.size(), 0);
    if (got < 0) TOWPATH_CHECK(errno == EINTR, "getrandom has been there since Linux 3.17");
    left = left.subspan(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  for (std::uint64_t& value : into)
    if (value == 0) value = random_u64();
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  random_u64s({&value, 1});
  return value;
}

}  // namespace towpath::sys
