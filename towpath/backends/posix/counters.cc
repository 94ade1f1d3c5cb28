#include <array>

#include <towpath/backends/posix/counters.h>
#include <towpath/core/format.h>

namespace towpath::backends::posix {
namespace {

constexpr std::array<std::string_view, kPaths> kPathNames{
    name_of(Path::buffered), name_of(Path::direct), name_of(Path::bounce)};

}  // namespace

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : PieceCounters(metrics, {.backend = "posix", .agent = agent, .paths = kPathNames}),
      submissions(counter("ios_total")),
      cached_reads(counter("cached_reads_total")),
      short_continuations(counter("short_continuations_total")),
      bounce_bytes(counter("bounce_bytes_total")),
      registered_ios(counter("registered_buffer_ios_total")),
      registered_bytes(gauge("registered_buffer_bytes")) {}

telemetry::Gauge& Counters::engines(std::string_view engine) {
  return gauge("engines", {{"engine", std::string(engine)}});
}

telemetry::Gauge& Counters::files(bool direct) {
  return gauge("files", {{"mode", direct ? "direct" : "buffered"}});
}

std::string Counters::to_string() const {
  return cat(moved_to_string(), "; ", submissions.value(), " I/Os in ", batches.value(),
             " batches, ", cached_reads.value(), " reads answered at once, ",
             registered_ios.value(), " by registered buffers, ", short_continuations.value(),
             " continued, ", retries.value(), " retried, ", isolations.value(), " taken apart");
}

}  // namespace towpath::backends::posix
