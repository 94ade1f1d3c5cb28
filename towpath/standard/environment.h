// The process' environment as a value: read once, here, and passed to whoever interprets it, so
// that a test passes its own. Thread: immutable; reading it races with setenv(3), as everywhere.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace towpath::standard {

/// Of the variables that are ours to read; those of the last one win.
inline constexpr std::string_view kOurPrefix = "TOWPATH_";
inline constexpr std::array<std::string_view, 2> kVariablePrefixes = {"NIXL_", kOurPrefix};

/// Names to values. A name that stands there twice has its first value, as getenv(3) says.
using Environment = std::map<std::string, std::string>;

Environment read_environment();

/// 1 true yes y on enable, 0 false no n off disable, in letters of either case; nothing for others.
std::optional<bool> parse_switch(std::string_view text);

/// What is to be said of a variable that means nothing here, or whose value cannot be read.
struct Remark {
  std::string variable;
  std::string why;  ///< "is not known", "has no effect: ...", "cannot be read: ..."
  friend bool operator==(const Remark&, const Remark&) = default;
};

}  // namespace towpath::standard
