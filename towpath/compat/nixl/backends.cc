#include <algorithm>
#include <array>
#include <utility>

#include <towpath/compat/nixl/backends.h>
#include <towpath/compat/nixl/params.h>
#include <towpath/core/format.h>
#include <towpath/standard/nixl_names.h>

namespace towpath::nixl {
namespace {

constexpr std::string_view kUcx = "UCX";
constexpr std::string_view kUcxType = "ucx";
constexpr std::string_view kUcxDeviceType = "ucx_device";
constexpr std::string_view kTcpType = "tcp";
constexpr std::string_view kShmType = "shm";
constexpr std::string_view kGdsType = "gds";
constexpr std::string_view kPosixType = "posix";

std::string variable(const standard::Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

// One good answer is enough, and who knows nothing may be right: opening it shows it.
Status check_probe(const backend::BackendType& type) {
  const std::vector<Finding> findings = type.probe ? type.probe({}) : std::vector<Finding>();
  if (findings.empty()) return {};
  for (const Finding& finding : findings) {
    if (finding.verdict != Verdict::no) return {};
  }
  return error(Code::unsupported, findings.front().reason, findings.front().hint);
}

// What the type that does not start would have refused.
Status check_known(const backend::BackendType& type, const backend::Params& params) {
  for (const auto& [name, value] : params) {
    if (std::ranges::find(type.params, name, &backend::ParamInfo::name) == type.params.end())
      return error(Code::invalid_argument, cat(type.name, " has no parameter ", printable(name)),
                   "see its parameters with get_plugin_params");
  }
  return {};
}

}  // namespace

NixlBackends::NixlBackends(const backend::Registry& registry,
                           const standard::Environment& environment, telemetry::Log log,
                           NixlMachine machine)
    : registry_(registry),
      transports_(variable(environment, "UCX_TLS")),
      security_(variable(environment, "TOWPATH_SECURITY")),
      log_(std::move(log)),
      machine_(std::move(machine)) {}

// ---- plug-ins

std::vector<std::string> NixlBackends::plugins() const {
  std::vector<std::string> names;
  for (const std::string& type : registry_.names()) {
    for (std::string& name : standard::nixl_backend_names(type)) names.push_back(std::move(name));
  }
  if (std::ranges::find(names, kUcx) == names.end()) names.emplace(names.begin(), kUcx);
  return names;
}

Result<const backend::BackendType*> NixlBackends::plugin(std::string_view name) const {
  auto type = registry_.find(name);
  if (type.ok() || lower(name) != lower(kUcx)) return type;
  return registry_.find(kShmType);
}

Result<std::vector<MemoryKind>> NixlBackends::plugin_kinds(std::string_view name) const {
  TOWPATH_TRY(const backend::BackendType* type, plugin(name));
  std::vector<const backend::BackendType*> all = {type};
  const auto add = [&](std::string_view companion) {
    if (const auto found = registry_.find(companion); found.ok()) all.push_back(*found);
  };
  if (lower(name) == lower(kUcx)) {
    add(kShmType);
    add(kUcxDeviceType);
  } else if (type->name == kGdsType) {
    add(kPosixType);
  }
  std::vector<MemoryKind> kinds;
  for (const MemoryKind kind : kMemoryKinds) {
    const auto takes = [&](const backend::BackendType* one) {
      return std::ranges::find(one->kinds, kind) != one->kinds.end();
    };
    if (std::ranges::any_of(all, takes)) kinds.push_back(kind);
  }
  return kinds;
}

// ---- creating

Result<const NixlBackend*> NixlBackends::create(agent::Agent& agent, std::string_view name,
                                                const backend::Params& params) {
  TOWPATH_TRY(const backend::BackendType* type, plugin(name));
  run::MutexLock lock(mutex_);
  for (const NixlBackend& known : created_) {
    if (lower(known.name) == lower(name))
      return error(Code::already_exists, cat("this agent has a backend ", known.name, " already"),
                   "use that one: an agent has one of each type");
  }
  const TranslatedParams translated = translate_params(*type, params);
  for (const std::string& remark : translated.remarks)
    log_.say_unlimited(telemetry::Level::info, remark);
  const auto for_ucx = params.find("engine_config");
  if (for_ucx != params.end() && type->name == kUcxType && name != kUcxType && !machine_.has_rdma())
    log_.say_unlimited(telemetry::Level::warning,
                       cat("engine_config=", printable(for_ucx->second),
                           " has no effect: this host has no RDMA device, so there is no UCX"));
  NixlBackend made{.name = std::string(name),
                   .type = type->name,
                   .types = {type->name},
                   .params = with_defaults(*type, translated.params)};
  if (type->name == kUcxType) {
    Status started = start_ucx(agent, *type, translated.params, made);
    started = add_ucx_device(agent, made, started);
    if (name != kUcxType) started = add_tcp(agent, made, started);
    TOWPATH_TRY(add_shm(agent, made, started));
  } else if (type->name == kGdsType) {
    TOWPATH_TRY(add_posix(agent, made, start(agent, *type, translated.params)));
  } else {
    TOWPATH_TRY(start(agent, *type, translated.params));
    if (lower(name) == lower(kUcx))
      log_.info("this build has no UCX: UCX is shared memory, for agents of this host");
  }
  return &created_.emplace_back(std::move(made));
}

// UCX itself: as it is where it is asked for by our name for it, for RDMA alone where NIXL's is.
Status NixlBackends::start_ucx(agent::Agent& agent, const backend::BackendType& type,
                               backend::Params params, NixlBackend& made) {
  if (security_ == "tls")
    return error(made.name == kUcxType ? Code::denied : Code::unsupported,
                 "TOWPATH_SECURITY=tls is set, and UCX does not encrypt",
                 "use tcp, or leave the variable unset where the network is trusted");
  if (made.name != kUcxType) {
    TOWPATH_TRY(check_known(type, params));
    if (!machine_.has_rdma())
      return error(Code::unsupported,
                   "this host has no RDMA device, and UCX's TCP port is not safe",
                   "ask for \"ucx\" by that name to have it all the same");
    const auto given = params.find("transports");
    if (transports_.empty() && (given == params.end() || given->second.empty()))
      params.insert_or_assign("transports", std::string(standard::kWithoutTcp));
  }
  made.params = with_defaults(type, params);
  return start(agent, type, params);
}

// Peers that RDMA does not reach, by the same messages.
Status NixlBackends::add_tcp(agent::Agent& agent, NixlBackend& ucx, const Status& started) {
  if (!started.ok() && started.code() != Code::unsupported) return started;
  backend::Params params;
  if (!security_.empty()) params.emplace("security", security_);
  for (const char* const time : {"heartbeat_ms", "timeout_ms"})  // both speak the same messages
    if (const auto given = ucx.params.find(time); given != ucx.params.end()) params.insert(*given);
  const Companion tcp{.type = kTcpType,
                      .is_preferred = false,
                      .without = "UCX goes without TCP",
                      .alone = "UCX is TCP by sockets here",
                      .params = std::move(params)};
  return registry_.find(kTcpType).ok() ? add(agent, ucx, started, tcp) : started;
}

// On one host either does what NIXL's UCX does; where both run, each does what it is better at.
Status NixlBackends::add_shm(agent::Agent& agent, NixlBackend& ucx, const Status& started) {
  if (!started.ok() && started.code() != Code::unsupported) return started;
  if (!may_share_memory(ucx)) return started;
  const Companion shm{
      .type = kShmType,
      .is_preferred = true,
      .without = "UCX goes without shared memory; peers of this host are reached as others are",
      .alone = "UCX is shared memory here, for agents of this host",
      .params = {}};
  return add(agent, ucx, started, shm);
}

// By pinned memory of the host or straight: which way is faster is shown by the first transfers.
Status NixlBackends::add_ucx_device(agent::Agent& agent, NixlBackend& ucx, const Status& started) {
  if (!started.ok() || ucx.type != kUcxType || !registry_.find(kUcxDeviceType).ok()) return started;
  if (!machine_.devices.may_exist()) return started;
  const Companion straight{.type = kUcxDeviceType,
                           .is_preferred = false,
                           .without = "UCX goes without GPUs; their memory goes by way of the host",
                           .alone = "",
                           .params = ucx.params};
  return add(agent, ucx, started, straight);
}

// NIXL's GDS copies through host memory where it cannot go straight; here posix does that, and host
// memory as well.
Status NixlBackends::add_posix(agent::Agent& agent, NixlBackend& gds, const Status& started) {
  const bool is_here = started.code() != Code::unsupported && started.code() != Code::not_found;
  if (!started.ok() && is_here) return started;
  const Companion posix{
      .type = kPosixType,
      .is_preferred = false,
      .without = "GDS goes without posix; files that do not go straight cannot be reached",
      .alone =
          "there is no GPUDirect Storage here: posix is used instead, and stages a GPU's memory",
      .params = {}};
  return add(agent, gds, started, posix);
}

Status NixlBackends::add(agent::Agent& agent, NixlBackend& made, const Status& started,
                         const Companion& companion) {
  const Status brought = bring(agent, companion);
  if (brought.ok()) {
    made.types.emplace(companion.is_preferred ? made.types.begin() : made.types.end(),
                       companion.type);
  } else if (brought.code() == Code::invalid_argument) {
    return brought;  // of what was given to the whole
  } else {
    log_.warning(companion.without, {{"why", brought.to_string()}});
  }
  if (started.ok() || !brought.ok()) return started;
  log_.info(companion.alone, {{"why", started.to_string()}});
  made.type = companion.type;
  made.types = {made.type};
  made.params = std::ranges::find(running_, made.type, &Running::type)->params;
  return {};
}

// What came along with another name is there already, and stays as it is.
Status NixlBackends::start(agent::Agent& agent, const backend::BackendType& type,
                           const backend::Params& params) {
  const auto found = std::ranges::find(running_, type.name, &Running::type);
  backend::Params wanted = with_defaults(type, params);
  if (found == running_.end()) {
    TOWPATH_TRY(agent.add_backend(type.name, params));
    running_.push_back({type.name, std::move(wanted)});
    return {};
  }
  if (found->params == wanted) return {};
  return error(Code::already_exists,
               cat("backend ", type.name, " runs already, beside another, with other parameters"),
               cat("create ", type.name, " before the one that brought it"));
}

Status NixlBackends::bring(agent::Agent& agent, const Companion& companion) {
  TOWPATH_TRY(const backend::BackendType* type, registry_.find(companion.type));
  if (std::ranges::find(running_, companion.type, &Running::type) != running_.end()) return {};
  TOWPATH_TRY(check_probe(*type));
  backend::Params params;
  for (const backend::ParamInfo& known : type->params) {
    const auto given = companion.params.find(known.name);
    if (given != companion.params.end()) params.insert(*given);
  }
  return start(agent, *type, translate_params(*type, params).params);
}

bool NixlBackends::may_share_memory(const NixlBackend& ucx) const {
  const auto given = ucx.params.find("transports");
  const bool is_given = given != ucx.params.end() && !given->second.empty();
  return shares_memory(is_given ? given->second : transports_);
}

// ---- asking

std::vector<NixlBackend> NixlBackends::created() const {
  run::MutexLock lock(mutex_);
  return {created_.begin(), created_.end()};
}

const NixlBackend* NixlBackends::served_by(std::string_view type,
                                           std::span<const std::string> asked) const {
  run::MutexLock lock(mutex_);
  const NixlBackend* served = nullptr;
  for (const NixlBackend& one : created_) {
    if (!asked.empty() && std::ranges::find(asked, one.name) == asked.end()) continue;
    if (one.type == type) return &one;
    const bool serves = std::ranges::find(one.types, type) != one.types.end();
    if (serves && served == nullptr) served = &one;
  }
  return served;
}

std::vector<std::string> types_of(std::span<const NixlBackend> backends) {
  std::vector<std::string> types;
  for (const NixlBackend& one : backends) {
    for (const std::string& type : one.types) {
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
    }
  }
  return types;
}

Result<std::vector<MemoryKind>> kinds_of(const agent::Agent& agent, const NixlBackend& backend) {
  std::vector<backend::Capabilities> all;
  for (const std::string& type : backend.types) {
    TOWPATH_TRY(backend::Capabilities can, agent.capabilities(type));
    all.push_back(std::move(can));
  }
  std::vector<MemoryKind> kinds;
  for (const MemoryKind kind : kMemoryKinds) {
    if (std::ranges::any_of(all, [&](const auto& can) { return can.takes(kind); }))
      kinds.push_back(kind);
  }
  return kinds;
}

Status check_notifications(const agent::Agent& agent, std::span<const std::string> types) {
  if (types.empty()) return {};
  for (const std::string& type : types) {
    TOWPATH_TRY(const backend::Capabilities can, agent.capabilities(type));
    if (can.notifications != backend::Notifications::none) return {};
  }
  return error(Code::unavailable, cat("backend ", types.front(), " carries no notifications"),
               "name one that reaches peers, or none");
}

// As UCX reads it: names with commas, an auxiliary one with ":aux" behind, "^" in front for all but
// these.
bool shares_memory(std::string_view transports) {
  constexpr std::array<std::string_view, 9> kThroughMemory = {
      "all", "shm", "sm", "mm", "posix", "sysv", "cma", "knem", "xpmem"};
  constexpr std::size_t kWhole = 3;  // the first ones: all of it, when they are taken away
  if (transports.empty()) return true;
  const bool is_without = transports.starts_with('^');
  if (is_without) transports.remove_prefix(1);
  const auto* const end = is_without ? kThroughMemory.begin() + kWhole : kThroughMemory.end();
  bool named = false;
  while (!transports.empty()) {
    const std::string_view item = transports.substr(0, transports.find(','));
    transports.remove_prefix(std::min(item.size() + 1, transports.size()));
    const std::string_view word = item.substr(0, item.find(':'));
    named = named || std::find(kThroughMemory.begin(), end, word) != end;
  }
  return named != is_without;
}

}  // namespace towpath::nixl
