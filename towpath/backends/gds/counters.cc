#include <towpath/backends/gds/counters.h>
#include <towpath/core/format.h>

namespace towpath::backends::gds {

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : PieceCounters(metrics, {.backend = "gds", .agent = agent, .paths = {}}),
      calls(counter("calls_total")),
      batched(counter("library_batches_total")),
      short_continuations(counter("short_continuations_total")),
      failures(counter("failures_total")) {}

std::string Counters::to_string() const {
  return cat(moved_to_string(), "; ", calls.value(), " calls, ", batched.value(), " batches, ",
             short_continuations.value(), " continued, ", failures.value(), " failed");
}

}  // namespace towpath::backends::gds
