#include "tools/replay/stream_report.h"

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>

#include "tools/replay/report.h"
#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

std::string pace_text(const Options& options) {
  if (options.speed == 0) return "as fast as it goes";
  if (options.speed == 1) return "at its times";
  return cat("at ", options.speed, " times its speed");
}

std::string stream_totals(const Options& options, const Stream& stream,
                          const StreamOutcome& outcome, Colours colours) {
  Table table({{""}, {"", Align::right}, {""}});
  table.add({"transfers", grouped(stream.moves.size()),
             cat("of ", stream.nodes, stream.nodes == 1 ? " node" : " nodes", ", recorded in ",
                 duration_text(stream.length))});
  table.add({"repeated", duration_text(duration_of(outcome.seconds)),
             cat(pace_text(options), ", up to ", stream.lanes, " at a time")});
  if (stream.own > 0)
    table.add({"left out", grouped(stream.own), "within one node: its files, or its own memory"});
  if (stream.elsewhere > 0)
    table.add({"in place of", grouped(stream.elsewhere), "of other memory: moved in the host's"});
  add_proof(table, {.verified = outcome.verified,
                    .of = stream.moves.size(),
                    .mismatches = outcome.mismatches,
                    .what = "every byte, and the gaps between"});
  return table.text(colours);
}

std::string path_rows(const Options& options, const Stream& stream, const StreamOutcome& outcome,
                      Colours colours) {
  Table table = moves_table("op");
  const auto add = [&](const char* name, const StreamOutcome::Path& path) {
    if (path.moved.times().count() == 0) return;
    add_hop(table, name, path.moved, duration_of(outcome.seconds));
    if (path.recorded.count() > 0)
      table.add(with_times(
          {"  recorded", "", rate_text(path.recorded_bytes, path.recorded.sum()),
           rate_text(path.recorded_bytes, stream.length), grouped(path.recorded.count())},
          path.recorded));
  };
  add("read", outcome.reads);
  add("write", outcome.writes);
  if (options.speed > 0) table.add(with_times({"late", "", "", "", ""}, outcome.late));
  return table.text(colours);
}

nlohmann::ordered_json path_json(const StreamOutcome::Path& path, Duration run) {
  nlohmann::ordered_json out = hop_json(path.moved, run);
  out["recorded"] = spread_json(path.recorded);
  return out;
}

}  // namespace

std::string stream_text(const Options& options, const Stream& stream, const StreamOutcome& outcome,
                        Colours colours) {
  return cat("\n", stream_totals(options, stream, outcome, colours), "\n",
             path_rows(options, stream, outcome, colours), "\n",
             verdict_text(outcome.faults, "every byte arrived where it should", colours));
}

nlohmann::ordered_json stream_json(const Options& options, const Stream& stream,
                                   const StreamOutcome& outcome) {
  return {{"passed", outcome.faults.none()},
          {"transfers", stream.moves.size()},
          {"verified", outcome.verified},
          {"mismatches", outcome.mismatches},
          {"seconds", outcome.seconds},
          {"speed", options.speed},
          {"backend", options.backend},
          {"recorded_seconds", static_cast<double>(stream.length.count()) / 1e9},
          {"recorded_bytes", stream.recorded_bytes},
          {"nodes", stream.nodes},
          {"lanes", stream.lanes},
          {"left_out", {{"own", stream.own}, {"empty", stream.empty}}},
          {"other_memory", stream.elsewhere},
          {"reads", path_json(outcome.reads, duration_of(outcome.seconds))},
          {"writes", path_json(outcome.writes, duration_of(outcome.seconds))},
          {"late", spread_json(outcome.late)},
          {"faults", faults_json(outcome.faults)}};
}

}  // namespace towpath::tools::replay
