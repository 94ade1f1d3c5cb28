// BackendConfig: which backends an agent is to have, with which parameters, as a value: written by
// hand, or read from an environment.
//
//   DYN_KVBM_NIXL_BACKEND_UCX=true            a switch: y yes on 1 true enable, and their opposites
//   DYN_KVBM_NIXL_BACKEND_GDS_MT=true         names may have underscores
//   DYN_KVBM_NIXL_BACKEND_POSIX_DEPTH=128     a parameter: posix, depth=128; it switches posix on
//   DYN_KVBM_NIXL_BACKEND_POSIX=false         wins over parameters
//   nothing of the kind                       UCX, and nothing else: usual()
//   only switches that say false              none
//
// What follows the prefix belongs to the longest known name of a backend that it is, or begins with
// before an underscore. What begins with none is the name of an unknown backend if the value is a
// switch (creating it then says so), and refused if it is not.
// Invariants: names are upper-case and differ; from_environment() gives them in alphabetical order,
// with() in the order of the calls; backends are created in that order.
// Thread: immutable once made.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

struct BackendChoice {
  std::string name;  ///< upper-case
  backend::Params params;

  friend bool operator==(const BackendChoice&, const BackendChoice&) = default;
};

class BackendConfig {
 public:
  BackendConfig() = default;  ///< no backend
  /// Where nobody says anything: UCX.
  static BackendConfig usual();
  /// `known`: names of backends beside those of NIXL's plugins, which are known always; in any
  /// case. Errors: invalid_argument (no switch, no name, two variables that contradict each other).
  /// All are reported, not only the first.
  static Result<BackendConfig> from_environment(const Environment& environment,
                                                std::span<const std::string> known = {});

  /// Adds a backend at the end, or replaces the parameters of one that is there. Any case.
  BackendConfig& with(std::string_view name, backend::Params params = {});
  BackendConfig& without(std::string_view name);
  /// Adds what `other` has; parameters of one that both have are merged, and those of `other` win.
  BackendConfig& merge(const BackendConfig& other);

  bool has_backend(std::string_view name) const { return find(name) != nullptr; }
  /// Null when there is no such backend.
  const backend::Params* params_of(std::string_view name) const;
  const std::vector<BackendChoice>& backends() const noexcept { return choices_; }

  friend bool operator==(const BackendConfig&, const BackendConfig&) = default;

 private:
  const BackendChoice* find(std::string_view name) const;

  std::vector<BackendChoice> choices_;
};

struct BackendFailure {
  std::string name;
  Status why;
};

/// Creates all that `config` names and the agent does not have. Every one is tried, whatever
/// happens to the others; what was created stays. One that is there already is fine, unless
/// parameters come with it: they would be without effect. An empty list is fine. Errors: that of
/// the first that failed, with the names and reasons of all.
Status create_backends(agent::Agent& agent, const BackendConfig& config);

/// The same for who can live with less: reports what failed, and fails only when something was
/// asked for and nothing of it is there.
Result<std::vector<BackendFailure>> create_available_backends(agent::Agent& agent,
                                                              const BackendConfig& config);

/// Whether the agent has this backend; by its name or an alias, in any case.
inline bool has_backend(const agent::Agent& agent, std::string_view name) {
  return agent.has_backend(name);
}
/// Errors: not_found, naming those that are there.
Status require_backend(const agent::Agent& agent, std::string_view name);

}  // namespace towpath::standard
