// The kinds of backend that exist, as values: what each is called, which parameters it reads, how
// to probe the machine for it, and how to open one. There is no global list: `standard/` makes the
// usual Registry, a test makes its own, and the agent is given one. Thread: immutable once filled.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/core/clock.h>
#include <towpath/core/finding.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backend {

/// Everything that a backend is given. All pointers outlive it.
struct BackendContext {
  AgentIdentity self;
  const Clock* clock = nullptr;
  Events* events = nullptr;
  telemetry::EventSink* log = nullptr;
  telemetry::Metrics* metrics = nullptr;  ///< null: the backend publishes nothing
  Params params;

  /// What the backend says goes through this, as "`backend` `name of the agent`". Says nothing when
  /// the context has no sink.
  telemetry::Log log_as(std::string_view backend) const;
};

struct ParamInfo {
  std::string name;
  std::string default_value;
  std::string meaning;
};

struct BackendType {
  std::string name;  ///< lower case
  std::string summary;
  std::vector<MemoryKind> kinds;
  std::vector<ParamInfo> params;  ///< all that it reads; others are refused by name
  std::function<std::vector<Finding>(const Params&)> probe;
  std::function<Result<std::unique_ptr<Backend>>(const BackendContext&)> open;
};

class Registry {
 public:
  /// Errors: already_exists, invalid_argument (no name, no open).
  Status add(BackendType type);
  /// Another name for a type, in any case: alias("UCX", "ucx"). Errors: not_found, already_exists.
  Status alias(std::string_view alias, std::string_view name);
  /// By name or alias, whatever the case. Errors: not_found, naming those that exist.
  Result<const BackendType*> find(std::string_view name) const;
  /// Real names, in the order in which they were added.
  std::vector<std::string> names() const;

  /// Opens a backend after checking its parameters: an unknown one is refused with the known ones.
  Result<std::unique_ptr<Backend>> open(std::string_view name, const BackendContext& context) const;

 private:
  std::vector<BackendType> types_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // folded alias -> name
};

}  // namespace towpath::backend
