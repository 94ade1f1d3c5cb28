// The page of a replay: one HTML file that opens from disk, with plots, and needs nothing beside
// it. Thread: any.
#pragma once

#include <span>
#include <string>

#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/traces/comparison.h"

namespace towpath::tools::replay {

struct PageContent {
  std::string command;                              ///< what the user typed
  const ReplayOutcome* outcome = nullptr;           ///< null: nothing was moved
  std::span<const traces::Comparison> comparisons;  /// empty: policies were not compared
};

std::string page_of(const Options& options, const PageContent& content);

/// The command line of this process, as a shell reads it.
std::string command_line();

}  // namespace towpath::tools::replay
