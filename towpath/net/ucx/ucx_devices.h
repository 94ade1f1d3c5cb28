// Devices of UCX: which network devices it knows, and which of them a user means.
//
// UCX itself prints a warning about a name that it does not know and goes on with the others; here
// such a name is an error. What UCX knows is read from what it prints of a context: libucp has no
// function that reports, and the structs of libuct change from version to version.
// Thread: any; pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::net {

/// Of ucp_context_print_info(): what stands behind the '/' of "resource 0: ... tcp/eth0", each
/// once. Empty: UCX printed none, or in another way.
std::vector<std::string> devices_in(std::string_view context_info);

/// `asked` as UCX_NET_DEVICES wants it: "all", or names separated by commas and blanks, a '^'
/// before the first for all others. A device without its port is its first: "mlx5_0" for
/// "mlx5_0:1". Errors: invalid_argument (a name that is not among `known`), with the names that
/// are.
Result<std::string> choose_devices(std::string_view asked, std::span<const std::string> known);

}  // namespace towpath::net
