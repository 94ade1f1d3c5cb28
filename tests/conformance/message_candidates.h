// What speaks in messages, held to the contract whatever carries them: as between machines; and
// with device memory on both sides, staged here and moved by its owner there. The device is host
// memory that emulates one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/device/driver.h>

namespace towpath::backend::conformance {

/// `name`: of the candidate; the other one is its "-devices". `params`: of the backend.
std::vector<Candidate> message_candidates(
    const std::string& name, const std::function<BackendType(device::DriverSource)>& make_type,
    const Params& params);

}  // namespace towpath::backend::conformance
