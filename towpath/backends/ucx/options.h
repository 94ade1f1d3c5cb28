// What a user may choose of a ucx backend. Thread: immutable.
#pragma once

#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/backends/ucx/link.h>

namespace towpath::backends::ucx {

/// All that the backend reads.
std::vector<backend::ParamInfo> known_params();
/// Errors: invalid_argument (no number, or numbers that would lose peers that live).
Result<Timing> timing_of(const backend::Params& params);
/// Errors: invalid_argument (settings that are none).
Result<net::UcxOptions> options_of(const backend::Params& params);

}  // namespace towpath::backends::ucx
