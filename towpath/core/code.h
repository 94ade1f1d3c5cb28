// The ways a call can fail, as numbers that stay the same in every language.
//
// A program acts on the code; a person reads the sentence beside it (status.h).
// Values are part of the C interface: never renumber, only append.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string_view>

namespace towpath {

enum class Code : std::uint8_t {
  ok = 0,
  invalid_argument = 1,  ///< the call is wrong whatever the state of the world
  out_of_range = 2,      ///< an index, offset or length lies outside what it points into
  not_found = 3,         ///< no such peer, registration, file, backend, block
  already_exists = 4,    ///< the name or place is taken
  not_ready = 5,         ///< right call, wrong moment: not posted, still active, closed
  unsupported = 6,       ///< this build, machine or backend cannot do it; the message says which
  unavailable = 7,       ///< it could work, but the other side does not answer now; may be retried
  exhausted = 8,         ///< memory, disk space, descriptors or queue slots ran out
  denied = 9,            ///< permissions, limits or a policy refuse it
  timed_out = 10,        ///< the deadline passed first
  cancelled = 11,        ///< the caller asked for it to stop
  peer_lost = 12,        ///< the other agent died, restarted or was cut off
  corrupt = 13,          ///< bytes are not what their digest, checksum or format promises
  io_error = 14,         ///< the kernel or the device reported an error
  no_telemetry = 15,     ///< figures were asked for that were not, or not yet, recorded
  internal = 16,         ///< a fault of Towpath itself; please report it
};

/// The enumerator's own name: "invalid_argument". Unknown values give "unknown".
std::string_view name_of(Code code) noexcept;

}  // namespace towpath
