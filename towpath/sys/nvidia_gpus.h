// The GPUs of NVIDIA that the PCI bus has, whether or not a driver is there. Thread: any.
#pragma once

#include <string>
#include <vector>

namespace towpath::sys {

/// Their directories below `sys`, such as "/sys/bus/pci/devices/0000:17:00.0", ascending.
std::vector<std::string> nvidia_gpus(const std::string& sys = "/sys");

}  // namespace towpath::sys
