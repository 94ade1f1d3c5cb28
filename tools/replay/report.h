// The report of a replay: a table for people, JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/table.h"

namespace towpath::tools::replay {

/// What was found wrong, or what was not: `right` says it.
std::string verdict_text(const Faults& faults, const char* right, Colours colours);
nlohmann::ordered_json faults_json(const Faults& faults);
nlohmann::ordered_json spread_json(const Spread& times);
nlohmann::ordered_json hop_json(const Hop& hop);

std::string report_text(const Options& options, const ReplayOutcome& outcome, Colours colours);
nlohmann::ordered_json report_json(const Options& options, const ReplayOutcome& outcome);

}  // namespace towpath::tools::replay
