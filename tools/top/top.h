// `towpath top`: what running nodes do, from the flight recorders that they write. Nothing is asked
// of the nodes themselves, and nothing is slowed. Thread: the main one.
#pragma once

#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::tools {

struct TopOptions {
  std::vector<std::string> places;  ///< flight recorders, or directories of them
  Duration interval = std::chrono::seconds(1);
  bool once = false;
  std::string json;  ///< with once
};

/// Until no node runs any more, or once. Errors: not_found (no flight recorder), corrupt (a file
/// that was named is none), io_error.
Status run_top(const TopOptions& options);

}  // namespace towpath::tools
