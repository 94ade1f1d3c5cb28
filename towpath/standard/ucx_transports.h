// Which transports UCX may use, and what its TCP costs: a port that no secret guards. Eight bytes
// that anybody can send there end the process, by an assertion inside of UCX (docs/gotchas/ucx.md).
// Thread: immutable.
#pragma once

#include <string>
#include <string_view>

namespace towpath::standard {

/// UCX_TLS, for all of UCX but its TCP.
inline constexpr std::string_view kWithoutTcp = "^tcp";

inline constexpr std::string_view kUcxPortDanger =
    "UCX listens at a TCP port that no secret guards: eight bytes from anybody who reaches it end "
    "this process";

/// Whether UCX_TLS, or a list like it, lets UCX listen at TCP ports; empty is all that it has.
bool opens_tcp_port(std::string_view transports);

/// Whether the kernel has an RDMA port here, and this process a device to use it by.
bool has_rdma(const std::string& sys = "/sys", const std::string& dev = "/dev");

}  // namespace towpath::standard
