// Whether the kernel gives io_uring rings, for tests that need one: asked of it, and not of the
// library's own rings, which must not skip their own tests. Thread: any.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/fd.h>

namespace towpath::sys::testing {

/// Empty where it does. `flags`: IORING_SETUP_...
inline std::string why_no_rings(unsigned flags = 0) {
  io_uring_params params{};
  params.flags = flags;
  if (Fd(static_cast<int>(::syscall(SYS_io_uring_setup, 1U, &params)))) return {};
  return cat("io_uring_setup: ", std::strerror(errno),
             ": allow it (kernel.io_uring_disabled=0, no seccomp filter)");
}

}  // namespace towpath::sys::testing
