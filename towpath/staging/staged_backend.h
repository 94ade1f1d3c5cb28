// Device memory over a backend that takes only host memory: the same backend, with slots of pinned
// memory before it, in which the device's copies and the backend's transfers overlap.
//
//   device <--streams--> [ slot | slot | slot ... ] <--the backend--> files, objects, peers
//
// What the backend can do itself goes to it as it is. It stages memory of this side; a peer's
// device memory is the peer's to move, where the backend knows how (ucx does). Which device there
// is, is asked when device memory is registered. Thread: immutable; what it opens follows the
// contract (backend/backend.h).
#pragma once

#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/device/driver.h>

namespace towpath::staging {

/// How a backend comes to the devices whose memory it stages: asked whether there may be one when a
/// backend is opened, and for the driver when the first device memory is registered.
using Devices = device::DriverSource;

/// `inner`, which takes device memory too wherever it takes pinned memory of this side. It reads
/// two parameters more: staging_slots, staging_bytes.
backend::BackendType staged(backend::BackendType inner, Devices devices);

}  // namespace towpath::staging
