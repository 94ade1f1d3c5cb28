// The process' environment as a value: read once, here, and passed to whoever interprets it, so
// that a test passes its own. Thread: immutable; reading it races with setenv(3), as everywhere.
#pragma once

#include <map>
#include <string>

namespace towpath::standard {

/// Names to values. A name that stands there twice has its first value, as getenv(3) says.
using Environment = std::map<std::string, std::string>;

Environment read_environment();

}  // namespace towpath::standard
