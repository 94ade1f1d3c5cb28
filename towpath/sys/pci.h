// Where devices sit on the PCI bus, and what stands between two of them. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace towpath::sys {

/// Where links lead; empty: nowhere.
std::string real_path(const std::string& path);

/// Whether two devices below /sys/devices have a PCI bridge above them both. What meets only at the
/// processor's own root has not.
bool share_switch(const std::string& device, const std::string& other);

/// Whether they are at least below the same root: "pci0000:16" in /sys/devices.
bool share_root(const std::string& device, const std::string& other);

/// The directories of the PCI bridges above a device below /sys/devices, the root's port first.
std::vector<std::string> bridges_above(const std::string& device);

/// Whether a bridge sends what its devices have for each other up to the root (ACS: request
/// redirect, completion redirect, egress control), where the IOMMU or a host bridge may stop it.
/// Nothing when its configuration cannot be examined: all of it is for CAP_SYS_ADMIN alone.
/// Source: PCI Express Base Specification, Access Control Services.
std::optional<bool> redirects_peers(const std::string& bridge);

}  // namespace towpath::sys
