#include <algorithm>
#include <charconv>

#include <towpath/backends/messages/timing_params.h>
#include <towpath/core/format.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

Result<std::uint64_t> number_of(std::string_view backend, const Params& params,
                                const std::string& name, std::uint64_t otherwise) {
  const auto found = params.find(name);
  if (found == params.end() || found->second.empty()) return otherwise;
  std::uint64_t number = 0;
  const std::string& text = found->second;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure == std::errc() && end == text.data() + text.size() && number > 0 &&
      number <= 24ULL * 3600 * 1000)
    return number;
  return error(Code::invalid_argument,
               cat(backend, ": ", name, "=", printable(text), " is no number of milliseconds"));
}

}  // namespace

std::vector<ParamInfo> timing_params() {
  return {
      {.name = "heartbeat_ms", .default_value = "250", .meaning = "a silent side speaks up then"},
      {.name = "timeout_ms", .default_value = "5000", .meaning = "a peer so long silent is lost"}};
}

Result<Timing> timing_of(std::string_view backend, const Params& params) {
  TOWPATH_TRY(const std::uint64_t heartbeat, number_of(backend, params, "heartbeat_ms", 250));
  TOWPATH_TRY(const std::uint64_t timeout, number_of(backend, params, "timeout_ms", 5000));
  if (timeout < 4 * heartbeat) {
    return error(Code::invalid_argument,
                 cat(backend, ": timeout_ms=", timeout, " with heartbeat_ms=", heartbeat,
                     " would lose peers that live"),
                 "give at least four heartbeats");
  }
  using std::chrono::milliseconds;
  return Timing{.heartbeat = milliseconds(heartbeat),
                .timeout = milliseconds(timeout),
                .lease = milliseconds(4 * heartbeat)};
}

}  // namespace towpath::backends::messages
