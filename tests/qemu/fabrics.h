// NVMe over a network, within the guest: the kernel's target shows a drive under another serial
// number, and the kernel's host connects to it.
#pragma once

#include <string>

#include "guest_drives.h"

namespace towpath::guest {

/// "LOOP" and "TCP" are serial numbers of such controllers; the drive behind them is BEHIND.
bool is_over_fabrics(const std::string& serial);
/// Whether the kernel's modules for it were carried along. If not, kNoFabrics says why.
bool has_fabrics();
inline constexpr const char* kNoFabrics =
    "the kernel came without modules for NVMe over a network: `./dev setup` fetches them";
/// Connects it, once; the drive then comes like every other. Fails the test when that cannot be
/// done.
void connect_fabrics(const std::string& serial);

}  // namespace towpath::guest
