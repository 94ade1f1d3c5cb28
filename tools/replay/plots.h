// The plots of a replay's page: figures in, values to draw out. Thread: any.
#pragma once

#include <span>
#include <vector>

#include "tools/plot/plot.h"
#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/traces/comparison.h"

namespace towpath::tools::replay {

/// Hit ratio of each policy over the size of the cache, below the optimum.
Plot hit_ratio_plot(std::span<const traces::Comparison> comparisons);
/// Bytes per second on each hop over the time of the run.
Plot bytes_plot(const Options& options, const ReplayOutcome& outcome);
/// Which share of a hop's moves took at most so long.
Plot latency_plot(const Options& options, const ReplayOutcome& outcome);
/// How full the tiers were over the time of the run.
Plot occupancy_plot(const Options& options, const ReplayOutcome& outcome);
/// Where the blocks were found, over the time of the run.
Plot found_plot(const Options& options, const ReplayOutcome& outcome);

}  // namespace towpath::tools::replay
