// The other processes of a replay: this program again, with --role and --worker. Thread: any.
#pragma once

#include <vector>

#include <towpath/core/result.h>

#include "tools/child.h"
#include "tools/replay/arguments.h"

namespace towpath::tools::replay {

/// The last of them is the last prefill. Errors: those of Child::start().
Result<std::vector<Child>> start_others(const Arguments& arguments);
/// At once.
void end(Child& child);

}  // namespace towpath::tools::replay
