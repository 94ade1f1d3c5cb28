// ConfigFile: NIXL's configuration file. Its keys are the names of variables:
//
//   # a comment
//   NIXL_ETCD_ENDPOINTS = "http://etcd:2379"
//   NIXL_TELEMETRY_ENABLE = true
//   NIXL_TELEMETRY_PROMETHEUS_PORT = 9091
//
// The first of these that is there is read, and no other: the file that NIXL_CONFIG_FILE (or
// TOWPATH_CONFIG_FILE) names, $HOME/.nixl.cfg, /etc/nixl.cfg. What its values mean is for others
// to say (configuration.h).
//
// It is the part of TOML that settings need: a line for each; "text", with \" \\ \n \t, or 'text';
// whole decimal numbers; true and false. In TOML nothing after the first [table] belongs to the
// whole, so reading ends there. No library reads it: Debian's toml++ 3.3 and toml11 3.7 both left
// the ground of the language under a fuzzer within seconds.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

struct ConfigFile {
  std::string path;  ///< empty: there is none
  Environment values;
  std::map<std::string, std::uint32_t, std::less<>> lines;  ///< of each key
  std::vector<Remark> remarks;                              ///< what is no setting

  /// "PATH:LINE"; empty: it does not say `key`.
  std::string place_of(std::string_view key) const;
};

/// Errors: invalid_argument (a line that cannot be read, a key that comes again), with path and
/// line.
Result<ConfigFile> parse_config_file(std::string_view text, std::string path);

inline constexpr Setting kConfigFileSetting{.name = "CONFIG_FILE",
                                            .values = "a file",
                                            .unset = "$HOME/.nixl.cfg, /etc/nixl.cfg",
                                            .what = "says the same as variables, which win",
                                            .is_variable = true};

inline constexpr const char* kSystemConfigFile = "/etc/nixl.cfg";
/// A HOME that this user may not enter has no file; a remark says so. Errors: as parse_config_file;
/// not_found (of a file that a variable names), denied, io_error, corrupt (it is too long).
Result<ConfigFile> read_config_file(const Environment& environment,
                                    const std::string& system_file = kSystemConfigFile);

}  // namespace towpath::standard
