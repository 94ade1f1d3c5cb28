#include <array>

#include <towpath/backends/nvme/counters.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::array<std::string_view, kPaths> kPathNames{
    name_of(Path::direct), name_of(Path::bounce), name_of(Path::modify)};

}  // namespace

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : PieceCounters(metrics, {.backend = "nvme", .agent = agent, .paths = kPathNames}),
      commands(counter("commands_total")),
      failures(counter("failures_total")) {}

std::string Counters::to_string() const {
  return cat(moved_to_string(), "; ", commands.value(), " commands in ", batches.value(),
             " batches, ", retries.value(), " retried, ", isolations.value(), " taken apart, ",
             failures.value(), " failed");
}

}  // namespace towpath::backends::nvme
