// Configuration: all settings that a process gets from outside, read and decided in one place: its
// environment, under it a file (config_file.h), and what both mean. A variable wins over the file,
// whichever of the two prefixes each has.
//
//   TOWPATH_TRY(const Configuration reported, configure(read_environment()));
//   reported.warn(log);  // (log, true) where telemetry is asked for
//   Node::open({..., .telemetry = reported.telemetry.decide(false)});
//
// Thread: immutable.
#pragma once

#include <string>
#include <vector>

#include <towpath/standard/config_file.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/telemetry_environment.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

struct Configuration {
  Environment environment;  ///< and under it what the file says
  Settings settings;
  TelemetryFromEnvironment telemetry;
  std::vector<std::string> warnings;  ///< a sentence each: what means nothing or cannot be read

  std::string telemetry_is_off;  ///< one more, where the code asks for none; empty: nothing

  std::vector<std::string> warnings_of(bool asks_for_telemetry) const;
  void warn(const telemetry::Log& log, bool asks_for_telemetry = false) const;
};

/// All settings that there are, by name.
std::vector<Setting> known_settings();

/// This process's environment, and under it what its file says. Errors: those of
/// read_config_file().
Result<Environment> read_environment_and_file();

/// All that there are. Errors: those of read_config_file().
Result<std::vector<GivenSetting>> given_settings(
    const Environment& environment, const std::string& system_file = kSystemConfigFile);

/// Errors: those of read_config_file() and telemetry_from().
Result<Configuration> configure(const Environment& environment,
                                const std::string& system_file = kSystemConfigFile);

}  // namespace towpath::standard
