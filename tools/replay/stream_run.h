// `towpath replay --trace RECORDING`: repeats a recorded stream of transfers between two processes.
// Thread: the main one.
#pragma once

#include <string>

#include <towpath/core/result.h>

#include "tools/command.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// `role` is that of this process: "prefill" owns the memory, "decode" moves the bytes, "both" is
/// decode and starts the other. Prints the report.
/// Errors: those of reading the recording, of the player and of the owner.
Result<Exit> run_stream(const Options& options, const std::string& role);

}  // namespace towpath::tools::replay
