#include <towpath/backends/object/counters.h>
#include <towpath/core/text.h>

namespace towpath::backends::object {
namespace {

constexpr std::array<std::string_view, 2> kOps{"read", "write"};
constexpr std::array<std::string_view, 3> kEndings{"done", "failed", "cancelled"};

std::size_t ending_of(const Status& status) {
  if (status.ok()) return 0;
  return status.code() == Code::cancelled ? 2 : 1;
}

}  // namespace

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : own_(metrics == nullptr ? std::make_unique<telemetry::Metrics>() : nullptr),
      metrics_(metrics == nullptr ? *own_ : *metrics),
      labels_{{"agent", std::string(agent)}},
      requests(counter("towpath_object_requests_total")),
      retries(counter("towpath_object_retries_total")),
      gap_bytes(counter("towpath_object_gap_bytes_total")),
      uploads(counter("towpath_object_multipart_uploads_total")),
      aborts(counter("towpath_object_aborted_uploads_total")),
      in_flight(metrics_.gauge("towpath_object_requests_in_flight", labels_)) {
  for (std::size_t op = 0; op < kOps.size(); ++op) {
    moved_[op] = &metrics_.counter("towpath_object_bytes_total", with("op", kOps[op]));
    for (std::size_t ending = 0; ending < kEndings.size(); ++ending) {
      telemetry::Labels labels = with("ending", kEndings[ending]);
      labels.push_back({"op", std::string(kOps[op])});
      ended_[ending][op] = &metrics_.counter("towpath_object_operations_total", std::move(labels));
    }
  }
}

telemetry::Labels Counters::with(std::string_view name, std::string_view value) const {
  telemetry::Labels labels = labels_;
  labels.push_back({std::string(name), std::string(value)});
  return labels;
}

void Counters::ended(TransferOp op, const Status& status) {
  ended_[ending_of(status)][op == TransferOp::write]->add();
}

std::string Counters::to_string() const {
  return cat("read ", moved_[0]->value(), " B, written ", moved_[1]->value(), " B; ",
             requests.value(), " requests, ", retries.value(), " of them again; ",
             gap_bytes.value(), " B read between stretches; ", uploads.value(),
             " uploads in parts, ", aborts.value(), " of them aborted");
}

}  // namespace towpath::backends::object
