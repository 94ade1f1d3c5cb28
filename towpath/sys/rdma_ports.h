// Ports of RDMA adapters, and which of them are under one PCI switch with a GPU: what UCX should be
// asked to use (UCX_NET_DEVICES) when it does not start, or is slow. Thread: any.
#pragma once

#include <string>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/sys/machine.h>

namespace towpath::sys {

struct RdmaPort {
  std::string name;    ///< as UCX says it: "mlx5_0:1"
  std::string device;  ///< its adapter below /sys/devices; empty: the kernel does not report
};

/// Ascending by adapter; of each its ports, ascending.
std::vector<RdmaPort> rdma_ports(const std::string& sys = "/sys");

/// A finding for each GPU of NVIDIA; none where there is no RDMA port.
std::vector<Finding> probe_ports_near_gpus(const MachineRoot& root = {});

}  // namespace towpath::sys
