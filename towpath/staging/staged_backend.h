// Device memory over a backend that takes only host memory: the same backend, with slots of pinned
// memory before it, in which the device's copies and the backend's transfers overlap.
//
//   device <--streams--> [ slot | slot | slot ... ] <--the backend--> files, objects, peers
//
// What the backend can do itself goes to it as it is. It stages memory of this side; a peer's
// device memory is the peer's to stage. Which device there is, is asked when device memory is
// registered. Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <functional>
#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/device/driver.h>

namespace towpath::staging {

/// How a backend comes to the devices whose memory it stages.
struct Devices {
  /// Asked when a backend is opened, cheaply; where there is no driver, nothing stands before it.
  std::function<bool()> may_exist = [] { return true; };
  /// Called when the first device memory is registered.
  std::function<Result<std::shared_ptr<device::Driver>>()> open;
};

/// `inner`, which takes device memory too wherever it takes pinned memory of this side. It reads
/// two parameters more: staging_slots, staging_bytes.
backend::BackendType staged(backend::BackendType inner, Devices devices);

}  // namespace towpath::staging
