// The other process of a repeated stream: owns the memory that is read from and written to, and
// verifies every byte that was written, when the notification of its transfer comes.
//
// Per lane it has an area that is read, whose bytes are those of the lane's pattern, and one that
// is written. One thread does all, also the agent's progress.
#pragma once

#include <towpath/core/result.h>

#include "tools/replay/options.h"
#include "tools/replay/stream.h"

namespace towpath::tools::replay {

/// Of the bytes that a lane's reads must find, and of those that its writes bring.
constexpr std::uint64_t read_seed(std::uint64_t lane) noexcept { return lane; }
constexpr std::uint64_t write_seed(std::uint64_t ordinal) noexcept {
  return ordinal + (std::uint64_t{1} << 32U);
}

/// Runs until the player says that it was all, or is lost.
/// Errors: peer_lost, timed_out, or what could not be set up.
Status run_stream_owner(const Options& options, const Stream& stream);

}  // namespace towpath::tools::replay
