// Whether this machine has a GPU, for tests: asked of the machine, and not of the driver under
// test. It is no probe for users: `device/probe.h` is. Thread: any.
#pragma once

#include <string>

#include <dlfcn.h>
#include <unistd.h>

namespace towpath::device::testing {

/// Why this machine has no GPU to test with; empty where it has one. Asked of the machine and not
/// of `CudaDriver`: a driver that finds fault where there is none must not skip its own tests.
inline std::string why_no_gpu() {
  if (::access("/dev/nvidiactl", F_OK) != 0) return "no GPU here: there is no /dev/nvidiactl";
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return ::dlerror();
  return {};
}

}  // namespace towpath::device::testing
