#include <utility>

#include <towpath/core/format.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/wire_security.h>

namespace towpath::standard {
namespace {

constexpr const char* kVariable = "TOWPATH_SECURITY";

std::string asked_for(const Environment& environment) {
  const auto found = environment.find(kVariable);
  return found == environment.end() ? std::string() : found->second;
}

/// Those of the process, where the wire is in TLS and nothing was said of it.
void add_certificates(backend::Params& params, const Settings& settings) {
  const auto security = params.find("security");
  if (security == params.end() || security->second != "tls") return;
  if (params.contains("cert") || params.contains("key") || params.contains("ca")) return;
  if (!settings.tls_cert_file.empty()) params.emplace("cert", settings.tls_cert_file);
  if (!settings.tls_key_file.empty()) params.emplace("key", settings.tls_key_file);
  if (!settings.tls_ca_file.empty()) params.emplace("ca", settings.tls_ca_file);
}

}  // namespace

backend::BackendType with_wire_security(backend::BackendType type,
                                        std::function<Result<Environment>()> environment) {
  type.open =
      [open = std::move(type.open), environment = std::move(environment)](
          const backend::BackendContext& context) -> Result<std::unique_ptr<backend::Backend>> {
    TOWPATH_TRY(const Environment given, environment());
    backend::BackendContext asked = context;
    if (const std::string security = asked_for(given); !security.empty())
      asked.params.emplace("security", security);
    add_certificates(asked.params, Settings::from(given));
    return open(asked);
  };
  return type;
}

backend::BackendType refused_where_encrypted(backend::BackendType type,
                                             std::function<Result<Environment>()> environment) {
  type.open =
      [name = type.name, open = std::move(type.open), environment = std::move(environment)](
          const backend::BackendContext& context) -> Result<std::unique_ptr<backend::Backend>> {
    TOWPATH_TRY(const Environment given, environment());
    const std::string security = asked_for(given);
    if (!security.empty() && security != "tls" && security != "authenticated")
      return error(Code::invalid_argument, cat(name, ": ", kVariable, "=", printable(security)),
                   "say tls or authenticated");
    if (security == "tls")
      return error(Code::unsupported,
                   cat(name, ": ", kVariable, "=tls is set, and UCX does not encrypt"),
                   "use the backend tcp, or leave the variable unset where the network is trusted");
    return open(context);
  };
  return type;
}

}  // namespace towpath::standard
