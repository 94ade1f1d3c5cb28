// The settings that there are, what this process would have, and what gives each: for a person, and
// for programs. Thread: immutable.
#pragma once

#include <string>

#include <towpath/core/result.h>

namespace towpath::tools {

/// To standard output; with `json` there, "-" being standard output instead. What means nothing,
/// and what cannot be read, stands below. Errors: of a configuration file that cannot be read, of
/// writing.
Status show_settings(const std::string& json);

}  // namespace towpath::tools
