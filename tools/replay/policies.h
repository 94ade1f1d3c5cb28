// `towpath replay --policy all`: what each eviction policy would have hit, beside the optimum.
// No processes, no bytes: only the decisions. Thread: the main one.
#pragma once

#include <vector>

#include <towpath/core/result.h>

#include "tools/replay/options.h"
#include "tools/traces/comparison.h"
#include "tools/traces/trace.h"

namespace towpath::tools::replay {

/// Plays the requests of `source` at each capacity. Errors: those of the source.
Result<std::vector<traces::Comparison>> compare_policies(const Options& options,
                                                         traces::RequestSource& source);

/// Prints what they hit; also as JSON when the options ask. Errors: those of writing.
Status report_policies(const Options& options, const std::vector<traces::Comparison>& all);

}  // namespace towpath::tools::replay
