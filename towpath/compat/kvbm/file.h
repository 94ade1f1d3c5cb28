// File: KVBM's configuration, as a list of its settings by path.
//
//   [cache.host]                    {"cache": {"host": {"cache_size_gb": 4.0}}}
//   cache_size_gb = 4.0             the same as JSON
//
// Of TOML it takes what such files have: tables, dotted keys, "text" and 'text', numbers, true and
// false, lists and inline tables on one line. Of these values only text, numbers and switches mean
// something here; a list or an inline table is kept as it is written. What a path means is for
// others to say (settings.h).
// Thread: immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::kvbm {

struct Setting {
  std::string path;   ///< "cache.host.cache_size_gb"
  std::string value;  ///< text without its quotes; a list as `["a", "b"]`
  std::string place;  ///< "kvbm.toml:7"; of JSON its name
};

/// In their order. Errors: invalid_argument (a line that cannot be read, a path that comes again),
/// with name and line.
Result<std::vector<Setting>> parse_kvbm_toml(std::string_view text, const std::string& name);
/// Errors: invalid_argument (no JSON, no object, nested too deep).
Result<std::vector<Setting>> parse_kvbm_json(std::string_view text, const std::string& name);

}  // namespace towpath::kvbm
