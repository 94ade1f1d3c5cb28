// UcxOptions: what a worker over UCX is opened with. Thread: a value.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace towpath::net {

struct UcxOptions {
  std::string transports;  ///< as UCX_TLS: "tcp,cma"; empty: what UCX chooses
  /// As UCX_NET_DEVICES, which it takes the place of: "eth0"; empty: as that says (ucx_devices.h).
  std::string devices;
  /// The longest message. Each is one segment of a transport where that can be configured (TCP).
  std::size_t message_bytes = 136 * 1024;
  /// It takes devices: GPUs of CUDA. Long messages then begin when the receiver says so
  /// (rendezvous), since a network adapter may bring them from GPU to GPU.
  bool devices_too = false;
  /// Further settings of UCX, named without "UCX_", those of a transport also without its name:
  /// "KEEPALIVE_INTERVAL", "TX_SEG_SIZE". UCX prints a warning about those that it does not know.
  std::map<std::string, std::string> settings;
};

}  // namespace towpath::net
