// The TCP port of UCX, which no secret guards: eight bytes that anybody can send end the process,
// by an assertion inside of UCX (docs/gotchas/ucx.md). So who opens `ucx` with it is warned,
// loudly, and `doctor` reports it; NIXL's users get `ucx` without it (nixl_backends.h). Thread:
// immutable.
#pragma once

#include <string>
#include <string_view>

#include <towpath/backend/registry.h>

namespace towpath::standard {

/// UCX_TLS, for all of UCX but its TCP.
inline constexpr std::string_view kWithoutTcp = "^tcp";

/// Whether UCX_TLS, or a list like it, lets UCX listen at TCP ports; empty is all that it has.
bool opens_tcp_port(std::string_view transports);

/// `type` (ucx, ucx_device), which warns where its transports, or else UCX_TLS of the environment,
/// open such a port.
backend::BackendType with_port_warning(backend::BackendType type);

/// Whether the kernel has an RDMA port here, and this process a device to use it by.
bool has_rdma(const std::string& sys = "/sys", const std::string& dev = "/dev");

}  // namespace towpath::standard
