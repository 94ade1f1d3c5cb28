// What several tests of memory look at. For tests only. Thread: any.
#pragma once

#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/core/status.h>

namespace towpath::memory::testing {

inline bool says(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

/// The lowest number that is free, so that a leaked descriptor shows.
inline int next_descriptor() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return fd;
}

}  // namespace towpath::memory::testing
