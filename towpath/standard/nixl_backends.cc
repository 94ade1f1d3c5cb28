#include <algorithm>
#include <array>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/standard/nixl_backends.h>
#include <towpath/standard/nixl_names.h>
#include <towpath/standard/nixl_params.h>

namespace towpath::standard {
namespace {

constexpr std::string_view kUcx = "UCX";
constexpr std::string_view kUcxType = "ucx";
constexpr std::string_view kTcpType = "tcp";
constexpr std::string_view kShmType = "shm";
constexpr std::string_view kGdsType = "gds";
constexpr std::string_view kPosixType = "posix";

/// The parameter, or what else says it.
std::string said(const backend::Params& params, const std::string& name,
                 const std::string& otherwise) {
  const auto found = params.find(name);
  return found == params.end() || found->second.empty() ? otherwise : found->second;
}

std::string variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

// One good answer is enough, and who knows nothing may be right: opening it tells.
Status check_probe(const backend::BackendType& type) {
  const std::vector<Finding> findings = type.probe ? type.probe({}) : std::vector<Finding>();
  if (findings.empty()) return {};
  for (const Finding& finding : findings) {
    if (finding.verdict != Verdict::no) return {};
  }
  return error(Code::unsupported, findings.front().reason, findings.front().remedy);
}

}  // namespace

NixlBackends::NixlBackends(const backend::Registry& registry, const Environment& environment,
                           telemetry::Log log, NetworkHere network)
    : registry_(registry),
      transports_(variable(environment, "UCX_TLS")),
      devices_(variable(environment, "UCX_NET_DEVICES")),
      network_(std::move(network)),
      log_(std::move(log)) {}

// ---- plug-ins

std::vector<std::string> NixlBackends::plugins() const {
  std::vector<std::string> names;
  for (const std::string& type : registry_.names()) names.push_back(nixl_backend_name(type));
  if (std::ranges::find(names, kUcx) == names.end()) names.emplace(names.begin(), kUcx);
  return names;
}

Result<const backend::BackendType*> NixlBackends::plugin(std::string_view name) const {
  auto type = registry_.find(name);
  if (type.ok() || lower(name) != lower(kUcx)) return type;
  return registry_.find(kShmType);
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
  for (const std::string& remark : translated.remarks) log_.info(remark);
  NixlBackend made{.name = std::string(name),
                   .type = type->name,
                   .types = {type->name},
                   .params = with_defaults(*type, translated.params)};
  if (type->name == kUcxType) {
    TOWPATH_TRY(start_network(agent, made, translated.params));
  } else if (type->name == kGdsType) {
    TOWPATH_TRY(add_posix(agent, made, start(agent, *type, translated.params)));
  } else {
    TOWPATH_TRY(start(agent, *type, translated.params));
    if (lower(name) == lower(kUcx))
      log_.info("this build has no UCX: shared memory stands in, for agents of this host");
  }
  return &created_.emplace_back(std::move(made));
}

// Other machines by TCP or by UCX, this host by shared memory.
Status NixlBackends::start_network(agent::Agent& agent, NixlBackend& made,
                                   const backend::Params& params) {
  const UcxWords words{.transports = said(params, "transports", transports_),
                       .devices = said(params, "devices", devices_),
                       .has_settings = !said(params, "settings", {}).empty()};
  std::vector<std::string> types = network_types(words, network_);
  std::erase_if(types, [&](const std::string& type) { return !registry_.find(type).ok(); });
  if (types.empty()) types.emplace_back(kUcxType);
  TOWPATH_TRY(const backend::BackendType* first, registry_.find(types.front()));
  backend::Params wanted = params;
  if (first->name == kTcpType) {
    // What only UCX reads has been heeded in choosing.
    for (const char* const ucxs : {"transports", "settings"}) wanted.erase(ucxs);
    wanted["devices"] = lower(words.devices) == "all" ? std::string() : words.devices;
    log_.info("no RDMA is asked for, or here: TCP without UCX serves peers of other machines");
  }
  made.type = first->name;
  made.types = {made.type};
  made.params = with_defaults(*first, wanted);
  Status started = start(agent, *first, wanted);
  if (types.size() > 1 && (started.ok() || started.code() == Code::unsupported)) {
    started = add(
        agent, made, started,
        {.type = kTcpType,
         .is_preferred = false,
         .without = "UCX goes without TCP by sockets; peers without RDMA are reached by its own",
         .alone = "there is no UCX here: TCP by sockets stands in"});
  }
  return add_shm(agent, made, started, shares_memory(words.transports));
}

// On one host either does what NIXL's UCX does; where both run, each does what it is better at.
Status NixlBackends::add_shm(agent::Agent& agent, NixlBackend& ucx, const Status& started,
                             bool may_share_memory) {
  if (!started.ok() && started.code() != Code::unsupported) return started;
  if (!may_share_memory) return started;
  const Companion shm{
      .type = kShmType,
      .is_preferred = true,
      .without = "UCX goes without shared memory; peers of this host are reached as others are",
      .alone = "there is no UCX here: shared memory stands in, for agents of this host"};
  return add(agent, ucx, started, shm);
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
      .alone = "there is no GPUDirect Storage here: posix stands in, and stages a GPU's memory"};
  return add(agent, gds, started, posix);
}

Status NixlBackends::add(agent::Agent& agent, NixlBackend& made, const Status& started,
                         const Companion& companion) {
  const Status brought = bring(agent, companion.type);
  if (brought.ok()) {
    made.types.emplace(companion.is_preferred ? made.types.begin() : made.types.end(),
                       companion.type);
  } else {
    log_.warning(companion.without, {{"why", brought.to_string()}});
  }
  if (started.ok() || !brought.ok()) return started;
  log_.warning(companion.alone, {{"why", started.to_string()}});
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

Status NixlBackends::bring(agent::Agent& agent, std::string_view name) {
  TOWPATH_TRY(const backend::BackendType* type, registry_.find(name));
  if (std::ranges::find(running_, name, &Running::type) != running_.end()) return {};
  TOWPATH_TRY(check_probe(*type));
  return start(agent, *type, {});
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

}  // namespace towpath::standard
