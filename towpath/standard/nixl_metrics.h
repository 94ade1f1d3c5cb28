// The names that NIXL's users have on their dashboards, made of ours.
//
//   agent_tx_bytes_total, agent_rx_bytes_total                writes, reads
//   agent_tx_requests_num_total, agent_rx_requests_num_total
//   agent_memory_registered_total, agent_memory_deregistered_total   bytes, each once
//   agent_xfer_time_nanoseconds, agent_xfer_post_time_nanoseconds    histograms, of whole numbers:
//     an exporter writes them as agent_xfer_time_us, agent_xfer_post_time_us
//   agent_errors_total{status}                                our names of statuses
//
// Labels: agent_name, and hostname. They are sums over peers and backends, which NIXL does not
// report apart. What it gives as the last value of a gauge is left out: between two scrapes it says
// little. Thread: any.
#pragma once

#include <string_view>
#include <vector>

#include <towpath/telemetry/metrics.h>

namespace towpath::standard {

std::vector<telemetry::Metric> nixl_metrics(const std::vector<telemetry::Metric>& ours,
                                            std::string_view hostname);

}  // namespace towpath::standard
