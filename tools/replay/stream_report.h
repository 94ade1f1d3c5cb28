// The report of a repeated stream: a table for people, JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/replay/options.h"
#include "tools/replay/stream_player.h"
#include "tools/table.h"

namespace towpath::tools::replay {

std::string stream_text(const Options& options, const Stream& stream, const StreamOutcome& outcome,
                        Colours colours);
nlohmann::ordered_json stream_json(const Options& options, const Stream& stream,
                                   const StreamOutcome& outcome);

}  // namespace towpath::tools::replay
