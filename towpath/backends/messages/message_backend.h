// Agents of other processes and machines, by messages whose bytes their owners move. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <towpath/backend/registry.h>
#include <towpath/backends/messages/carrier.h>
#include <towpath/device/driver.h>

namespace towpath::backends::messages {

/// `devices`: whose memory peers may use; it is moved by its owner, here. Without them there is
/// none.
backend::BackendType message_type(Carrier carrier, device::DriverSource devices = {});

/// The backend `tcp`.
inline backend::BackendType tcp_type(device::DriverSource devices = {}) {
  return message_type(tcp_carrier(), std::move(devices));
}

/// The backend `ucx`.
inline backend::BackendType ucx_type(device::DriverSource devices = {}) {
  return message_type(ucx_carrier(), std::move(devices));
}

/// The backend `ucx_device`.
inline backend::BackendType ucx_device_type(device::DriverSource devices) {
  return message_type(ucx_device_carrier(), std::move(devices));
}

}  // namespace towpath::backends::messages
