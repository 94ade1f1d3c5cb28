#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <towpath/standard/nixl_metrics.h>

namespace towpath::standard {
namespace {

using telemetry::BucketCounts;
using telemetry::Label;
using telemetry::Labels;
using telemetry::Metric;

/// One of our names, for one operation where it matters, and what it is called there.
struct Rule {
  std::string_view ours;
  std::string_view op;  ///< empty: all
  std::string_view theirs;
};
constexpr std::array kRules{
    Rule{"towpath_transfer_bytes_total", "write", "agent_tx_bytes_total"},
    Rule{"towpath_transfer_bytes_total", "read", "agent_rx_bytes_total"},
    Rule{"towpath_transfers_total", "write", "agent_tx_requests_num_total"},
    Rule{"towpath_transfers_total", "read", "agent_rx_requests_num_total"},
    Rule{"towpath_memory_registered_bytes_total", "", "agent_memory_registered_total"},
    Rule{"towpath_memory_deregistered_bytes_total", "", "agent_memory_deregistered_total"},
    Rule{"towpath_transfer_nanoseconds", "", "agent_xfer_time_nanoseconds"},
    Rule{"towpath_post_nanoseconds", "", "agent_xfer_post_time_nanoseconds"},
    Rule{"towpath_transfer_errors_total", "", "agent_errors_total"},
};

std::string_view value_of(const Labels& labels, std::string_view name) {
  const auto found = std::ranges::find(labels, name, &Label::name);
  return found == labels.end() ? std::string_view() : std::string_view(found->value);
}

void add(Metric& to, const Metric& from) {
  if (const auto* count = std::get_if<std::uint64_t>(&from.value)) {
    if (auto* sum = std::get_if<std::uint64_t>(&to.value)) *sum += *count;
    return;
  }
  const auto* counts = std::get_if<BucketCounts>(&from.value);
  if (counts == nullptr) return;
  if (!std::holds_alternative<BucketCounts>(to.value))
    to.value = BucketCounts{.bounds = counts->bounds,
                            .counts = std::vector<std::uint64_t>(counts->counts.size())};
  auto& sum = std::get<BucketCounts>(to.value);
  for (std::size_t i = 0; i < std::min(sum.counts.size(), counts->counts.size()); ++i)
    sum.counts[i] += counts->counts[i];
  sum.sum += counts->sum;
}

}  // namespace

std::vector<Metric> nixl_metrics(const std::vector<Metric>& ours, std::string_view hostname) {
  std::map<std::pair<std::string_view, Labels>, Metric> theirs;
  for (const Metric& metric : ours) {
    for (const Rule& rule : kRules) {
      if (metric.name != rule.ours) continue;
      if (!rule.op.empty() && value_of(metric.labels, "op") != rule.op) continue;
      Labels labels{{"agent_name", std::string(value_of(metric.labels, "agent"))},
                    {"hostname", std::string(hostname)}};
      if (const std::string_view status = value_of(metric.labels, "status"); !status.empty())
        labels.push_back({"status", std::string(status)});
      Metric& sum = theirs[{rule.theirs, labels}];
      sum.name = rule.theirs;
      sum.labels = std::move(labels);
      add(sum, metric);
    }
  }
  std::vector<Metric> all;
  for (auto& [key, metric] : theirs) all.push_back(std::move(metric));
  return all;
}

}  // namespace towpath::standard
