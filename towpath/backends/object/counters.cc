#include <towpath/backends/object/counters.h>
#include <towpath/core/text.h>

namespace towpath::backends::object {

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : OperationCounters(metrics, {.backend = "object", .agent = agent, .paths = {}}),
      requests(counter("requests_total")),
      retries(counter("retries_total")),
      gap_bytes(counter("gap_bytes_total")),
      uploads(counter("multipart_uploads_total")),
      aborts(counter("aborted_uploads_total")),
      in_flight(gauge("requests_in_flight")) {}

std::string Counters::to_string() const {
  return cat(moved_to_string(), "; ", requests.value(), " requests, ", retries.value(),
             " of them again; ", gap_bytes.value(), " B read between extents; ", uploads.value(),
             " uploads in parts, ", aborts.value(), " of them aborted");
}

}  // namespace towpath::backends::object
