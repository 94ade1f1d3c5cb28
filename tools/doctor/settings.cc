#include "tools/doctor/settings.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/core/format.h>
#include <towpath/standard/configuration.h>

#include "tools/output.h"
#include "tools/table.h"

namespace towpath::tools {
namespace {

using standard::GivenSetting;

std::string footer(const std::vector<GivenSetting>& all) {
  std::string ours;
  for (const GivenSetting& given : all)
    if (given.setting.is_ours && given.name.starts_with(standard::kOurPrefix))
      ours += cat(ours.empty() ? "" : ", ", given.setting.name);
  return cat("\nOf those with ", standard::kOurPrefix, " all but ", ours,
             " may begin with NIXL_, too; ", standard::kOurPrefix, " wins.\n", kvbm::kPrefix,
             "* and what KVBM has for them else count where its settings are taken.\n");
}

Status show_text(const std::vector<GivenSetting>& all, const std::vector<std::string>& warnings) {
  TOWPATH_TRY(Output out, Output::open("-"));
  const Colours colours = out.is_terminal() ? Colours::yes : Colours::no;
  Table table({{"setting"}, {"value"}, {"from"}});
  for (const GivenSetting& given : all) {
    const bool is_given = !given.source.empty();
    table.add({given.name,
               {is_given ? printable(given.value) : std::string(given.setting.unset),
                is_given ? Tone::good : Tone::faint},
               is_given ? printable(given.source) : "default"});
    table.note(cat(given.setting.what, "; ", given.setting.values));
  }
  TOWPATH_TRY(out.write(table.text(colours)));
  TOWPATH_TRY(out.write(footer(all)));
  for (const std::string& warning : warnings)
    TOWPATH_TRY(out.write(cat(painted("warning", Tone::warning, colours), ": ", warning, "\n")));
  return out.close();
}

nlohmann::ordered_json to_json(const std::vector<GivenSetting>& all,
                               const std::vector<std::string>& warnings) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const GivenSetting& given : all)
    settings.push_back(
        {{"name", given.name},
         {"value", given.source.empty() ? nullptr : nlohmann::ordered_json(given.value)},
         {"source", given.source.empty() ? nullptr : nlohmann::ordered_json(given.source)},
         {"unset", given.setting.unset},
         {"values", given.setting.values},
         {"what", given.setting.what}});
  return {{"settings", std::move(settings)}, {"warnings", warnings}};
}

}  // namespace

Status show_settings(const std::string& json) {
  const standard::Environment environment = standard::read_environment();
  TOWPATH_TRY(auto all, standard::given_settings(environment));
  TOWPATH_TRY(const auto dialect, kvbm::given_settings(environment));
  TOWPATH_TRY(const auto from_kvbm, kvbm::Settings::read(environment, {}));
  all.insert(all.end(), dialect.begin(), dialect.end());
  TOWPATH_TRY(const standard::Configuration configuration, standard::configure(environment));
  std::vector<std::string> warnings = configuration.warnings;
  for (const standard::Remark& remark : from_kvbm.remarks)
    warnings.push_back(cat(printable(remark.variable), " ", remark.why));
  if (!json.empty()) TOWPATH_TRY(write_json(json, to_json(all, warnings)));
  return json == "-" ? Status() : show_text(all, warnings);
}

}  // namespace towpath::tools
