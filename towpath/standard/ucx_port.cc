#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/ucx_port.h>

namespace towpath::standard {

namespace {

constexpr std::string_view kUcxPortHint =
    "use the backend tcp, or leave UCX's TCP out: transports=^tcp, or UCX_TLS";

std::string transports_of(const backend::Params& params) {
  if (const auto given = params.find("transports"); given != params.end() && !given->second.empty())
    return given->second;
  const Environment environment = read_environment();
  const auto variable = environment.find("UCX_TLS");
  return variable == environment.end() ? std::string() : variable->second;
}

Finding finding_of(bool opens) {
  return {
      .question = "Can anybody end a process that uses UCX?",
      .signal = "the transports that UCX may use",
      .source = "transports, UCX_TLS",
      .verdict = opens ? Verdict::degraded : Verdict::yes,
      .reason = std::string(opens ? kUcxPortDanger : "UCX's TCP is left out, so it opens no port"),
      .hint = std::string(opens ? kUcxPortHint : "")};
}

}  // namespace

backend::BackendType with_port_warning(backend::BackendType type) {
  type.open = [name = type.name,
               open = std::move(type.open)](const backend::BackendContext& context) {
    if (opens_tcp_port(transports_of(context.params)))
      context.log_as(name).warning(kUcxPortDanger, {{"instead", std::string(kUcxPortHint)}});
    return open(context);
  };
  if (!type.probe) return type;
  type.probe = [probe = std::move(type.probe)](const backend::Params& params) {
    auto findings = probe(params);
    const bool runs = std::ranges::any_of(
        findings, [](const Finding& one) { return one.verdict != Verdict::no; });
    if (runs) findings.push_back(finding_of(opens_tcp_port(transports_of(params))));
    return findings;
  };
  return type;
}

}  // namespace towpath::standard
