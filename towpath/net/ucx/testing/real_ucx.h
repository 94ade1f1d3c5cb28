// Whether UCX is installed, for tests that need it: asked of the loader, and not of our own probe,
// which must not skip its own tests. Thread: any.
#pragma once

#include <string>

#include <dlfcn.h>

#include <towpath/core/format.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::net::testing {

/// Empty where it is, and was when this was built. It stays loaded.
inline std::string why_no_ucx() {
  if (const Finding found = probe_ucx(); found.source == "the build") return found.reason;
  if (::dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL) != nullptr) return {};
  return cat(::dlerror(), ": apt-get install libucx0");
}

}  // namespace towpath::net::testing
