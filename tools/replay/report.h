// The report of a replay: a table for people, JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/table.h"

namespace towpath::tools::replay {

std::string report_text(const Options& options, const ReplayOutcome& outcome, Colours colours);
nlohmann::ordered_json report_json(const Options& options, const ReplayOutcome& outcome);

}  // namespace towpath::tools::replay
