// `towpath replay --trace RECORDING`: repeats a recorded stream of transfers between two processes.
// Thread: the main one.
#pragma once

#include <towpath/core/result.h>

#include "tools/command.h"
#include "tools/replay/arguments.h"

namespace towpath::tools::replay {

/// By its role this process owns the memory ("prefill"), moves the bytes ("decode"), or moves them
/// and starts the other ("both"). Prints the report.
/// Errors: invalid_argument (options that are of a trace of requests), those of reading the
/// recording, of the player and of the owner.
Result<Exit> run_stream(const Arguments& arguments);

}  // namespace towpath::tools::replay
