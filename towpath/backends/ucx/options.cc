#include <algorithm>
#include <charconv>

#include <towpath/backends/ucx/options.h>
#include <towpath/core/text.h>

namespace towpath::backends::ucx {

using namespace backend;

namespace {

Result<std::uint64_t> number_of(const Params& params, const std::string& name,
                                std::uint64_t otherwise) {
  const auto found = params.find(name);
  if (found == params.end() || found->second.empty()) return otherwise;
  std::uint64_t number = 0;
  const std::string& text = found->second;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc() && end == text.data() + text.size() && number > 0 &&
      number <= 24ULL * 3600 * 1000)
    return number;
  return error(Code::invalid_argument,
               cat("ucx: ", name, "=", printable(text), " is no number of milliseconds"));
}

std::string text_of(const Params& params, const std::string& name) {
  const auto found = params.find(name);
  return found == params.end() ? std::string() : found->second;
}

}  // namespace

std::vector<ParamInfo> known_params() {
  return {
      {.name = "transports", .default_value = "", .meaning = "as UCX_TLS; empty: UCX chooses"},
      {.name = "devices",
       .default_value = "",
       .meaning = "as UCX_NET_DEVICES; empty: as that says"},
      {.name = "heartbeat_ms", .default_value = "250", .meaning = "a silent side speaks up then"},
      {.name = "timeout_ms", .default_value = "5000", .meaning = "a peer so long silent is lost"},
      {.name = "settings", .default_value = "", .meaning = "more for UCX: NAME=VALUE;NAME=VALUE"}};
}

Result<Timing> timing_of(const Params& params) {
  TOWPATH_TRY(const std::uint64_t heartbeat, number_of(params, "heartbeat_ms", 250));
  TOWPATH_TRY(const std::uint64_t timeout, number_of(params, "timeout_ms", 5000));
  if (timeout < 4 * heartbeat) {
    return error(Code::invalid_argument,
                 cat("ucx: timeout_ms=", timeout, " with heartbeat_ms=", heartbeat,
                     " would lose peers that live"),
                 "give at least four heartbeats");
  }
  using std::chrono::milliseconds;
  return Timing{.heartbeat = milliseconds(heartbeat),
                .timeout = milliseconds(timeout),
                .lease = milliseconds(4 * heartbeat)};
}

Result<net::UcxOptions> options_of(const Params& params) {
  net::UcxOptions options{.transports = text_of(params, "transports"),
                          .devices = text_of(params, "devices"),
                          .message_bytes = kFrameBytes};
  // "NAME=VALUE;NAME=VALUE": values may hold commas.
  std::string_view rest = params.contains("settings") ? params.at("settings") : std::string_view();
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t sign = one.find('=');
    if (sign == 0 || sign == std::string_view::npos)
      return error(Code::invalid_argument,
                   cat("ucx: settings: '", printable(one), "' is no NAME=VALUE"));
    options.settings.emplace(one.substr(0, sign), one.substr(sign + 1));
  }
  return options;
}

}  // namespace towpath::backends::ucx
