#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <towpath/core/format.h>
#include <towpath/standard/backend_config.h>

namespace towpath::standard {
namespace {

constexpr std::string_view kPrefix = "DYN_KVBM_NIXL_BACKEND_";
constexpr std::array<std::string_view, 11> kNixlPlugins{
    "AZURE_BLOB", "GDS",      "GDS_MT", "GUSLI", "HF3FS", "INFINIA",
    "LIBFABRIC",  "MOONCAKE", "OBJ",    "POSIX", "UCX"};
constexpr std::string_view kSwitches = "true or false";

/// What the environment says of one backend.
struct Said {
  std::optional<bool> enabled;
  backend::Params params;
};

/// Takes the variables in, one after the other, and keeps what is wrong with them.
class Reader {
 public:
  explicit Reader(std::span<const std::string> known)
      : known_(kNixlPlugins.begin(), kNixlPlugins.end()) {
    for (const std::string& name : known) known_.push_back(upper(name));
  }

  void take(const std::string& variable, const std::string& value) {
    const std::string rest = upper(std::string_view(variable).substr(kPrefix.size()));
    const std::string name = owner_of(rest);
    if (rest.empty()) return refuse(variable, "names no backend");
    if (name.empty() || name == rest) return take_switch(variable, rest, value);
    const std::string param = lower(std::string_view(rest).substr(name.size() + 1));
    if (param.empty()) return refuse(variable, "names no parameter");
    const auto [place, is_new] = said_[name].params.emplace(param, value);
    if (!is_new && place->second != value) refuse(variable, "is there twice, with two values");
  }

  Result<BackendConfig> finish() const {
    if (!wrong_.empty())
      return error(Code::invalid_argument, wrong_,
                   cat(kPrefix, "NAME takes ", kSwitches, ", ", kPrefix, "NAME_PARAMETER a value"));
    if (said_.empty()) return BackendConfig::usual();
    BackendConfig config;
    for (const auto& [name, said] : said_) {
      if (said.enabled.value_or(true)) config.with(name, said.params);
    }
    return config;
  }

 private:
  /// The longest known name that `rest` is, or begins with before an underscore; empty: none.
  std::string owner_of(const std::string& rest) const {
    std::string longest;
    for (const std::string& name : known_) {
      const bool owns =
          rest.starts_with(name) && (rest.size() == name.size() || rest[name.size()] == '_');
      if (owns && name.size() > longest.size()) longest = name;
    }
    return longest;
  }

  void take_switch(const std::string& variable, const std::string& name, const std::string& value) {
    const std::optional<bool> on = parse_switch(value);
    if (!on) return refuse(variable, cat("is '", printable(value), "', which is no switch"));
    std::optional<bool>& known = said_[name].enabled;
    if (known.has_value() && known != on) return refuse(variable, "is there twice, on and off");
    known = on;
  }

  void refuse(const std::string& variable, std::string_view why) {
    wrong_ += cat(wrong_.empty() ? "" : "; ", printable(variable, 128), " ", why);
  }

  std::vector<std::string> known_;
  std::map<std::string, Said> said_;
  std::string wrong_;
};

Status create(agent::Agent& agent, const BackendChoice& choice) {
  if (!agent.has_backend(choice.name)) return agent.add_backend(choice.name, choice.params);
  if (choice.params.empty()) return {};
  return error(Code::already_exists,
               cat("it is there already, and its parameters cannot be changed"),
               "name it without parameters, or before it is created elsewhere");
}

std::vector<BackendFailure> create_all(agent::Agent& agent, const BackendConfig& config) {
  std::vector<BackendFailure> failures;
  for (const BackendChoice& choice : config.backends()) {
    if (Status status = create(agent, choice); !status.ok())
      failures.push_back({choice.name, std::move(status)});
  }
  return failures;
}

/// One sentence for all; the hint of the first.
Status reported(std::string_view what, const std::vector<BackendFailure>& failures) {
  std::string all(what);
  for (const BackendFailure& failure : failures)
    all += cat(&failure == failures.data() ? ": " : "; ", printable(failure.name), ": ",
               failure.why.message());
  return error(failures.front().why.code(), std::move(all),
               std::string(failures.front().why.hint()));
}

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += cat(out.empty() ? "" : ", ", name);
  return out.empty() ? "none" : out;
}

}  // namespace

BackendConfig BackendConfig::usual() { return std::move(BackendConfig().with("UCX")); }

Result<BackendConfig> BackendConfig::from_environment(const Environment& environment,
                                                      std::span<const std::string> known) {
  Reader reader(known);
  for (const auto& [variable, value] : environment) {
    if (variable.starts_with(kPrefix)) reader.take(variable, value);
  }
  return reader.finish();
}

BackendConfig& BackendConfig::with(std::string_view name, backend::Params params) {
  const std::string folded = upper(name);
  const auto there = std::ranges::find(choices_, folded, &BackendChoice::name);
  if (there != choices_.end())
    there->params = std::move(params);
  else
    choices_.push_back({folded, std::move(params)});
  return *this;
}

BackendConfig& BackendConfig::without(std::string_view name) {
  std::erase_if(choices_,
                [folded = upper(name)](const auto& choice) { return choice.name == folded; });
  return *this;
}

BackendConfig& BackendConfig::merge(const BackendConfig& other) {
  for (const BackendChoice& choice : other.choices_) {
    backend::Params params = choice.params;
    if (const backend::Params* mine = params_of(choice.name))
      params.insert(mine->begin(), mine->end());  // keeps what is there
    with(choice.name, std::move(params));
  }
  return *this;
}

const backend::Params* BackendConfig::params_of(std::string_view name) const {
  const BackendChoice* choice = find(name);
  return choice == nullptr ? nullptr : &choice->params;
}

const BackendChoice* BackendConfig::find(std::string_view name) const {
  const auto there = std::ranges::find(choices_, upper(name), &BackendChoice::name);
  return there == choices_.end() ? nullptr : &*there;
}

Status create_backends(agent::Agent& agent, const BackendConfig& config) {
  const std::vector<BackendFailure> failures = create_all(agent, config);
  if (failures.empty()) return {};
  return reported(
      cat(failures.size(), " of ", config.backends().size(), " backends were not created"),
      failures);
}

Result<std::vector<BackendFailure>> create_available_backends(agent::Agent& agent,
                                                              const BackendConfig& config) {
  std::vector<BackendFailure> failures = create_all(agent, config);
  const bool any = std::ranges::any_of(config.backends(), [&](const BackendChoice& choice) {
    return agent.has_backend(choice.name);
  });
  if (config.backends().empty() || any) return failures;
  return reported("none of the backends was created", failures);
}

Status require_backend(const agent::Agent& agent, std::string_view name) {
  if (agent.has_backend(name)) return {};
  return error(Code::not_found,
               cat("this needs the backend ", printable(name), ", and agent '",
                   printable(agent.name()), "' has: ", list_of(agent.backends())),
               "create it before, and look at what its creation said");
}

}  // namespace towpath::standard
