// How a measurement is reported: rows as they come, in nixlbench's columns and a few more, or JSON.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/bench/options.h"
#include "tools/bench/runner.h"
#include "tools/table.h"

namespace towpath::tools::bench {

/// What all rows have in common.
struct Setting {
  std::string partner;  ///< "process 4711 of this host"
  std::string remote;   ///< what the remote bytes are
  std::string path;     ///< how they get there; known after the first row
};

std::string head_text(const Options& options, const Setting& setting);
std::string titles_text();
std::string row_text(const Row& row, Colours colours);
std::string end_text(const Setting& setting, const std::vector<Row>& rows, Colours colours);

nlohmann::ordered_json to_json(const Options& options, const Setting& setting,
                               const std::vector<Row>& rows);

}  // namespace towpath::tools::bench
