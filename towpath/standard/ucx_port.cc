#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/standard/environment.h>
#include <towpath/standard/ucx_port.h>
#include <towpath/sys/rdma_ports.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {

namespace {

constexpr std::string_view kDanger =
    "UCX listens at a TCP port that no secret guards: eight bytes from anybody who reaches it end "
    "this process";
constexpr std::string_view kHint =
    "use the backend tcp, or leave UCX's TCP out: transports=^tcp, or UCX_TLS";

std::string transports_of(const backend::Params& params) {
  if (const auto given = params.find("transports"); given != params.end() && !given->second.empty())
    return given->second;
  const Environment environment = read_environment();
  const auto variable = environment.find("UCX_TLS");
  return variable == environment.end() ? std::string() : variable->second;
}

Finding finding_of(bool opens) {
  return {.question = "Can anybody end a process that uses UCX?",
          .signal = "the transports that UCX may use",
          .source = "transports, UCX_TLS",
          .verdict = opens ? Verdict::degraded : Verdict::yes,
          .reason = std::string(opens ? kDanger : "UCX's TCP is left out, so it opens no port"),
          .hint = std::string(opens ? kHint : "")};
}

}  // namespace

bool opens_tcp_port(std::string_view transports) {
  const bool is_without = transports.starts_with('^');
  if (is_without) transports.remove_prefix(1);
  bool named = transports.empty();
  while (!transports.empty()) {
    const std::string_view item = transports.substr(0, transports.find(','));
    transports.remove_prefix(std::min(item.size() + 1, transports.size()));
    const std::string_view word = item.substr(0, item.find(':'));
    named = named || word == "tcp" || word == "all";
  }
  return named != is_without;
}

backend::BackendType with_port_warning(backend::BackendType type) {
  type.open = [name = type.name,
               open = std::move(type.open)](const backend::BackendContext& context) {
    if (opens_tcp_port(transports_of(context.params)))
      context.log_as(name).warning(kDanger, {{"instead", std::string(kHint)}});
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

bool has_rdma(const std::string& sys, const std::string& dev) {
  if (sys::rdma_ports(sys).empty()) return false;
  return std::ranges::any_of(sys::names_in(dev + "/infiniband"),
                             [](const std::string& name) { return name.starts_with("uverbs"); });
}

}  // namespace towpath::standard
