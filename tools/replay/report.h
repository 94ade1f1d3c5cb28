// The report of a replay: a table for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/table.h"

namespace towpath::tools::replay {

/// Two rows: what was verified, and how much of it is right.
struct Proof {
  std::uint64_t verified = 0, of = 0, mismatches = 0;
  const char* what = "";
};
void add_proof(Table& table, const Proof& proof);

/// Of movements: bytes, bytes over the time that moves took, one after the other, bytes over that
/// of the whole run, moves, and how long one takes. `first` says what a row is.
Table moves_table(const char* first);
/// The end of its rows.
std::vector<Cell> with_times(std::vector<Cell> cells, const Spread& times);
/// A row, and a note by which way. `run`: how long all of it took.
void add_hop(Table& table, const char* name, const Hop& hop, Duration run);

/// What was found wrong, or what was not: `right` says it.
std::string verdict_text(const Faults& faults, const char* right, Colours colours);
nlohmann::ordered_json faults_json(const Faults& faults);
nlohmann::ordered_json spread_json(const Spread& times);
nlohmann::ordered_json hop_json(const Hop& hop, Duration run);

std::string report_text(const Options& options, const ReplayOutcome& outcome, Colours colours);
nlohmann::ordered_json report_json(const Options& options, const ReplayOutcome& outcome);

}  // namespace towpath::tools::replay
