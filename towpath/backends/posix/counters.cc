#include <towpath/backends/posix/counters.h>
#include <towpath/core/text.h>

namespace towpath::backends::posix {
namespace {

constexpr std::array<std::string_view, 2> kOps{"read", "write"};

}  // namespace

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : own_(metrics == nullptr ? std::make_unique<telemetry::Metrics>() : nullptr),
      metrics_(metrics == nullptr ? *own_ : *metrics),
      labels_{{"agent", std::string(agent)}},
      submissions(counter("towpath_posix_ios_total")),
      batches(counter("towpath_posix_batches_total")),
      short_continuations(counter("towpath_posix_short_continuations_total")),
      retries(counter("towpath_posix_retries_total")),
      isolations(counter("towpath_posix_isolations_total")),
      bounce_bytes(counter("towpath_posix_bounce_bytes_total")),
      strays(counter("towpath_posix_strays_total")),
      registered_ios(counter("towpath_posix_registered_buffer_ios_total")),
      registered_bytes(metrics_.gauge("towpath_posix_registered_buffer_bytes", labels_)) {
  for (std::size_t i = 0; i < kPaths; ++i)
    moved_[i] = both("towpath_posix_bytes_total", "path", name_of(static_cast<Path>(i)));
  for (std::size_t i = 0; i < kEndings; ++i)
    ended_[i] = both("towpath_posix_operations_total", "ending", name_of(static_cast<Ending>(i)));
}

telemetry::Labels Counters::with(std::string_view name, std::string_view value) const {
  telemetry::Labels labels = labels_;
  labels.push_back({std::string(name), std::string(value)});
  return labels;
}

Counters::Both Counters::both(std::string_view name, std::string_view label,
                              std::string_view value) {
  Both counters{};
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    telemetry::Labels labels = with(label, value);
    labels.push_back({"op", std::string(kOps[i])});
    counters[i] = &metrics_.counter(name, std::move(labels));
  }
  return counters;
}

telemetry::Gauge& Counters::engines(std::string_view engine) {
  return metrics_.gauge("towpath_posix_engines", with("engine", engine));
}

telemetry::Gauge& Counters::files(bool direct) {
  return metrics_.gauge("towpath_posix_files", with("mode", direct ? "direct" : "buffered"));
}

std::string Counters::to_string() const {
  std::string out;
  for (std::size_t path = 0; path < kPaths; ++path) {
    out += cat(name_of(static_cast<Path>(path)), " ", moved_[path][0]->value(), " B read, ",
               moved_[path][1]->value(), " B written; ");
  }
  out += cat(submissions.value(), " I/Os in ", batches.value(), " batches, ",
             registered_ios.value(), " by registered buffers, ", short_continuations.value(),
             " continued, ", retries.value(), " retried, ", isolations.value(), " taken apart");
  return out;
}

}  // namespace towpath::backends::posix
