// Which network engines of ours serve NIXL's "UCX" on a machine: UCX itself where there is RDMA,
// TCP by sockets alone where there is none (docs/decisions/0025-tcp-is-spoken-without-ucx.md).
// Thread: immutable.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace towpath::standard {

/// What the user said of UCX, in its own words.
struct UcxWords {
  std::string transports;     ///< the parameter, else UCX_TLS
  std::string devices;        ///< the parameter, else UCX_NET_DEVICES
  bool has_settings = false;  ///< further ones, which only UCX reads
};

struct NetworkHere {
  bool has_rdma = false;
  std::function<bool(const std::string& name)> is_interface;  ///< of the network, as eth0

  static NetworkHere look();
};

/// "ucx" and "tcp", the preferred one first; at least one.
std::vector<std::string> network_types(const UcxWords& words, const NetworkHere& here);

/// Whether UCX_TLS, or a list like it, leaves UCX a way through the memory of the host.
bool shares_memory(std::string_view transports);

}  // namespace towpath::standard
