#include <towpath/backends/nvme/counters.h>
#include <towpath/core/text.h>

namespace towpath::backends::nvme {

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : own_(metrics == nullptr ? std::make_unique<telemetry::Metrics>() : nullptr),
      metrics_(metrics == nullptr ? *own_ : *metrics),
      labels_{{"agent", std::string(agent)}},
      commands(counter("towpath_nvme_commands_total")),
      batches(counter("towpath_nvme_batches_total")),
      retries(counter("towpath_nvme_retries_total")),
      isolations(counter("towpath_nvme_isolations_total")),
      failures(counter("towpath_nvme_failures_total")),
      strays(counter("towpath_nvme_strays_total")) {
  for (std::size_t path = 0; path < kPaths; ++path) {
    for (const bool write : {false, true}) {
      telemetry::Labels labels = labels_;
      labels.push_back({"path", std::string(name_of(static_cast<Path>(path)))});
      labels.push_back({"op", write ? "write" : "read"});
      moved_[path][write ? 1 : 0] =
          &metrics_.counter("towpath_nvme_bytes_total", std::move(labels));
    }
  }
}

std::string Counters::to_string() const {
  std::string out;
  for (std::size_t path = 0; path < kPaths; ++path)
    out += cat(name_of(static_cast<Path>(path)), " ", moved_[path][0]->value(), " B read, ",
               moved_[path][1]->value(), " B written; ");
  return cat(out, commands.value(), " commands in ", batches.value(), " batches, ", retries.value(),
             " retried, ", isolations.value(), " taken apart, ", failures.value(), " failed");
}

}  // namespace towpath::backends::nvme
