#include <towpath/backend/operation_counters.h>
#include <towpath/core/format.h>

namespace towpath::backend {
namespace {

constexpr std::array<std::string_view, 2> kOps{"read", "write"};
constexpr std::array<std::string_view, 3> kEndings{"done", "failed", "cancelled"};

std::size_t ending_of(const Status& status) noexcept {
  if (status.ok()) return 0;
  return status.code() == Code::cancelled ? 2 : 1;
}

}  // namespace

OperationCounters::OperationCounters(telemetry::Metrics* metrics, const Names& names)
    : own_(metrics == nullptr ? std::make_unique<telemetry::Metrics>() : nullptr),
      metrics_(metrics == nullptr ? *own_ : *metrics),
      prefix_(cat("towpath_", names.backend, "_")),
      agent_(telemetry::name_label(names.agent)),
      paths_(names.paths.begin(), names.paths.end()) {
  if (paths_.empty()) moved_.push_back(both("bytes_total", {}, {}));
  for (const std::string& path : paths_) moved_.push_back(both("bytes_total", "path", path));
  for (std::size_t i = 0; i < kEndings.size(); ++i)
    ended_[i] = both("operations_total", "ending", kEndings[i]);
}

telemetry::Labels OperationCounters::with(telemetry::Labels more) const {
  more.push_back({"agent", agent_});
  return more;
}

telemetry::Counter& OperationCounters::counter(std::string_view name, telemetry::Labels more) {
  return metrics_.counter(cat(prefix_, name), with(std::move(more)));
}

telemetry::Gauge& OperationCounters::gauge(std::string_view name, telemetry::Labels more) {
  return metrics_.gauge(cat(prefix_, name), with(std::move(more)));
}

OperationCounters::Both OperationCounters::both(std::string_view name, std::string_view label,
                                                std::string_view value) {
  Both made{};
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    telemetry::Labels labels{{"op", std::string(kOps[i])}};
    if (!label.empty()) labels.push_back({std::string(label), std::string(value)});
    made[i] = &counter(name, std::move(labels));
  }
  return made;
}

void OperationCounters::ended(bool write, const Status& status) noexcept {
  ended_[ending_of(status)][write ? 1 : 0]->add();
}

std::string OperationCounters::moved_to_string() const {
  std::string out;
  for (std::size_t i = 0; i < moved_.size(); ++i) {
    if (!out.empty()) out += "; ";
    if (!paths_.empty()) out += paths_[i] + " ";
    out += cat(moved_[i][0]->value(), " B read, ", moved_[i][1]->value(), " B written");
  }
  return out;
}

PieceCounters::PieceCounters(telemetry::Metrics* metrics, const Names& names)
    : OperationCounters(metrics, names),
      batches(counter("batches_total")),
      retries(counter("retries_total")),
      isolations(counter("isolations_total")),
      strays(counter("strays_total")) {}

}  // namespace towpath::backend
