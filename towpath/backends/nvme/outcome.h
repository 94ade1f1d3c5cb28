// What a command came to, as the kernel reports it in one number, as a Status.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/status.h>

namespace towpath::backends::nvme {

/// The failure "`what`: ..."; `result` is not 0 (Done::result). A negative errno gets the meaning
/// it has for these commands: EREMOTEIO is memory of another device that the drive cannot reach
/// (unsupported), ENODEV a namespace that was removed (not_found).
Status failure_of(std::int32_t result, const std::string& what);

/// Whether the same command may go well when it is sent again.
bool is_worth_a_retry(std::int32_t result) noexcept;

}  // namespace towpath::backends::nvme
