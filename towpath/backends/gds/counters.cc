#include <towpath/backends/gds/counters.h>
#include <towpath/core/text.h>

namespace towpath::backends::gds {

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : own_(metrics == nullptr ? std::make_unique<telemetry::Metrics>() : nullptr),
      metrics_(metrics == nullptr ? *own_ : *metrics),
      labels_{{"agent", std::string(agent)}},
      calls(counter("towpath_gds_calls_total")),
      batches(counter("towpath_gds_batches_total")),
      short_continuations(counter("towpath_gds_short_continuations_total")),
      failures(counter("towpath_gds_failures_total")) {
  for (const bool write : {false, true}) {
    telemetry::Labels labels = labels_;
    labels.push_back({"op", write ? "write" : "read"});
    moved_[write ? 1 : 0] = &metrics_.counter("towpath_gds_bytes_total", std::move(labels));
  }
}

std::string Counters::to_string() const {
  return cat(moved_[0]->value(), " B read, ", moved_[1]->value(), " B written; ", calls.value(),
             " calls, ", batches.value(), " batches, ", short_continuations.value(), " continued, ",
             failures.value(), " failed");
}

}  // namespace towpath::backends::gds
