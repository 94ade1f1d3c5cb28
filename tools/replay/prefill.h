// The prefill side of a replay: makes the blocks that requests need, keeps them in a host pool that
// overflows to disk, and lets decode pull them.
//
// One thread does all, also the agent's progress.
#pragma once

#include <towpath/core/result.h>

#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// Runs until decode says that it was all, or until decode is lost.
/// Errors: peer_lost (decode died), timed_out, or what could not be set up.
Status run_prefill(const Options& options);

}  // namespace towpath::tools::replay
