// What a user may choose of when peers are heard and given up. Thread: immutable.
#pragma once

#include <string_view>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/backends/messages/link.h>

namespace towpath::backends::messages {

std::vector<backend::ParamInfo> timing_params();
/// `backend`: who asks, for the error. Errors: invalid_argument (no number, or numbers that would
/// lose peers that live).
Result<Timing> timing_of(std::string_view backend, const backend::Params& params);

}  // namespace towpath::backends::messages
