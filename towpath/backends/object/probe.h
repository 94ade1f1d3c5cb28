// What can be found out about a store before anything is moved: where it is, who we are to it, and
// whether it answers.
// Thread: any.
#pragma once

#include <vector>

#include <towpath/backends/object/options.h>
#include <towpath/core/finding.h>

namespace towpath::backends::object {

/// Without a bucket or a store of one's own nobody is asked: a probe does not talk to Amazon
/// unasked.
std::vector<Finding> probe_store(const Result<BackendOptions>& options);

}  // namespace towpath::backends::object
