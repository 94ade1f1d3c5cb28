#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/standard/wire_security.h>

namespace towpath::standard {
namespace {

// Whether the environment says what `name` is for, under any prefix that it may have.
bool is_said(const Environment& environment, std::string_view name) {
  for (const std::string_view prefix : kVariablePrefixes) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  const bool is_ours = std::ranges::any_of(known_settings(), [&](const Setting& setting) {
    return setting.is_ours && setting.name == name;
  });
  return std::ranges::any_of(kVariablePrefixes, [&](std::string_view prefix) {
    return (!is_ours || prefix == kOurPrefix) && environment.contains(cat(prefix, name));
  });
}

Environment below(const Environment& environment, const Environment& file) {
  Environment both = environment;
  for (const auto& [name, value] : file) {
    if (!is_said(environment, name)) both.emplace(name, value);
  }
  return both;
}

/// Of a file's keys, those that are variables alone.
std::vector<Remark> without_effect(const Environment& file) {
  std::vector<Remark> remarks;
  for (const Setting& setting : known_settings()) {
    for (const std::string_view prefix : kVariablePrefixes) {
      const std::string name = cat(prefix, setting.name);
      const bool is_one = setting.is_variable && (!setting.is_ours || prefix == kOurPrefix);
      if (is_one && file.contains(name))
        remarks.push_back({name, "has no effect: it is read from the environment alone"});
    }
  }
  return remarks;
}

}  // namespace

Result<Environment> read_environment_and_file() {
  const Environment environment = read_environment();
  TOWPATH_TRY(const ConfigFile file, read_config_file(environment));
  return below(environment, file.values);
}

std::vector<Setting> known_settings() {
  std::vector<Setting> all{kConfigFileSetting, kSecuritySetting};
  for (const auto& more : {Settings::all(), telemetry_settings(), shmem_settings()})
    all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all, {}, &Setting::name);
  return all;
}

Result<std::vector<GivenSetting>> given_settings(const Environment& environment,
                                                 const std::string& system_file) {
  TOWPATH_TRY(const ConfigFile file, read_config_file(environment, system_file));
  const Environment both = below(environment, file.values);
  std::vector<GivenSetting> all;
  for (const Setting& setting : known_settings()) {
    GivenSetting& given = all.emplace_back(GivenSetting{setting, cat(kOurPrefix, setting.name)});
    for (const std::string_view prefix : kVariablePrefixes) {  // those of the last one win
      const Environment& read = setting.is_variable ? environment : both;
      const auto found = read.find(cat(prefix, setting.name));
      if (found == read.end() || (setting.is_ours && prefix != kOurPrefix)) continue;
      given.value = found->second;
      given.source =
          environment.contains(found->first) ? found->first : file.place_of(found->first);
    }
  }
  return all;
}

Result<Configuration> configure(const Environment& environment, const std::string& system_file) {
  TOWPATH_TRY(const ConfigFile file, read_config_file(environment, system_file));
  Configuration reported{.environment = below(environment, file.values)};
  reported.settings = Settings::from(reported.environment);
  TOWPATH_TRY(reported.telemetry, telemetry_from(reported.environment));
  const auto sentence_of = [&](const Remark& remark) {
    const bool is_variable = environment.contains(remark.variable);
    return cat(is_variable ? "the variable" : file.place_of(remark.variable) + ":", " ",
               printable(remark.variable), " ", remark.why);
  };
  const auto warn_of = [&](const std::vector<Remark>& remarks) {
    for (const Remark& remark : remarks) reported.warnings.push_back(sentence_of(remark));
  };
  warn_of(file.remarks);
  warn_of(without_effect(file.values));
  warn_of(reported.settings.remarks);
  warn_of(reported.telemetry.remarks);
  if (const auto remark = reported.telemetry.remark_on(false))
    reported.telemetry_is_off = sentence_of(*remark);
  return reported;
}

std::vector<std::string> Configuration::warnings_of(bool asks_for_telemetry) const {
  std::vector<std::string> all = warnings;
  if (!asks_for_telemetry && !telemetry_is_off.empty()) all.push_back(telemetry_is_off);
  return all;
}

void Configuration::warn(const telemetry::Log& log, bool asks_for_telemetry) const {
  for (const std::string& warning : warnings_of(asks_for_telemetry))
    log.say_unlimited(telemetry::Level::warning, warning);
}

}  // namespace towpath::standard
