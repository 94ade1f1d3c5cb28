#include "tools/top/screen.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>

#include "tools/units.h"

namespace towpath::tools {
namespace {

double per_second(std::uint64_t count, Duration time) {
  return time.count() <= 0 ? 0
                           : static_cast<double>(count) * 1e9 / static_cast<double>(time.count());
}

/// Of an ascending list.
Duration percentile_of(const std::vector<Duration>& times, double share) {
  if (times.empty()) return Duration(0);
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1) + 0.5)];
}

std::string head_line(const NodeView& node, Colours colours) {
  const Activity& seen = node.activity;
  const char* const state = node.runs     ? "runs"
                            : seen.closed ? "was closed"
                                          : "ended without a farewell";
  return cat("  ", painted(printable(node.name), Tone::good, colours), "  process ", node.process,
             ", ", state, "; ", grouped(seen.records), " records in ",
             duration_text(seen.covered()),
             seen.overtaken ? ", which is all that the recorder holds" : "", "\n");
}

std::string paths_text(const Activity& seen, Colours colours) {
  Table table({{"peer"},
               {"backend"},
               {"op"},
               {"ended/s", Align::right},
               {"rate", Align::right},
               {"p50", Align::right},
               {"p99", Align::right},
               {"failed", Align::right},
               {"in flight", Align::right},
               {"bytes", Align::right},
               {"oldest", Align::right}});
  for (const auto& [path, figures] : seen.paths) {
    const bool any = figures.ended > 0;
    const bool open = figures.in_flight > 0;
    table.add({path.peer,
               path.backend,
               path.op,
               grouped(static_cast<std::uint64_t>(per_second(figures.ended, seen.covered()) + 0.5)),
               rate_text(figures.bytes, seen.covered()),
               any ? duration_text(percentile_of(figures.times, 0.5)) : "-",
               any ? duration_text(percentile_of(figures.times, 0.99)) : "-",
               {grouped(figures.failed), figures.failed > 0 ? Tone::bad : Tone::plain},
               grouped(figures.in_flight),
               open ? size_text(figures.bytes_in_flight) : "-",
               open ? duration_text(seen.to - figures.oldest) : "-"});
  }
  return table.empty() ? "  no transfers\n" : table.text(colours);
}

std::string talks_text(const Activity& seen, Colours colours) {
  if (seen.talks.empty()) return {};
  Table table({{"notifications"},
               {"sent/s", Align::right},
               {"received/s", Align::right},
               {"refused", Align::right}});
  const auto rate = [&](std::uint64_t count) {
    return grouped(static_cast<std::uint64_t>(per_second(count, seen.covered()) + 0.5));
  };
  for (const auto& [peer, talk] : seen.talks)
    table.add({peer,
               rate(talk.sent),
               rate(talk.received),
               {grouped(talk.refused), talk.refused > 0 ? Tone::warning : Tone::plain}});
  return "\n" + table.text(colours);
}

std::uint64_t blocks_asked(const Activity& seen) {
  std::uint64_t asked = 0;
  for (const auto& [place, found] : seen.found) asked += found.blocks;
  return asked;
}

std::string found_text(const Activity& seen, Colours colours) {
  const std::uint64_t asked = blocks_asked(seen);
  if (asked == 0) return {};
  Table table({{"blocks found in"},
               {"blocks/s", Align::right},
               {"rate", Align::right},
               {"share", Align::right}});
  for (const auto& [place, found] : seen.found)
    table.add({place.name,
               grouped(static_cast<std::uint64_t>(per_second(found.blocks, seen.covered()) + 0.5)),
               found.bytes > 0 ? rate_text(found.bytes, seen.covered()) : "-",
               percent(ratio_of(found.blocks, asked))});
  table.note(cat("hit ratio ", percent(ratio_of(asked - seen.missed, asked))));
  return "\n" + table.text(colours);
}

nlohmann::ordered_json found_json(const Activity& seen) {
  const std::uint64_t asked = blocks_asked(seen);
  nlohmann::ordered_json places = nlohmann::ordered_json::array();
  for (const auto& [place, found] : seen.found)
    places.push_back({{"place", place.name},
                      {"blocks", found.blocks},
                      {"bytes", found.bytes},
                      {"bytes_per_second", per_second(found.bytes, seen.covered())},
                      {"share", ratio_of(found.blocks, asked)}});
  return {{"asked", asked},
          {"hit_ratio", ratio_of(asked - seen.missed, asked)},
          {"found_in", std::move(places)}};
}

}  // namespace

std::string screen_text(const NodeView& node, Colours colours) {
  const Activity& seen = node.activity;
  std::string text = head_line(node, colours) + "\n" + paths_text(seen, colours);
  text += found_text(seen, colours) + talks_text(seen, colours);
  for (const std::string& peer : seen.lost)
    text += cat("  ", painted("lost", Tone::bad, colours), " ", peer, "\n");
  return text;
}

nlohmann::ordered_json screen_json(const NodeView& node) {
  const Activity& seen = node.activity;
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const auto& [path, figures] : seen.paths)
    paths.push_back({{"peer", path.peer},
                     {"backend", path.backend},
                     {"op", path.op},
                     {"ended", figures.ended},
                     {"ended_per_second", per_second(figures.ended, seen.covered())},
                     {"failed", figures.failed},
                     {"bytes", figures.bytes},
                     {"bytes_per_second", per_second(figures.bytes, seen.covered())},
                     {"p50_ns", percentile_of(figures.times, 0.5).count()},
                     {"p99_ns", percentile_of(figures.times, 0.99).count()},
                     {"in_flight", figures.in_flight},
                     {"bytes_in_flight", figures.bytes_in_flight}});
  nlohmann::ordered_json talks = nlohmann::ordered_json::array();
  for (const auto& [peer, talk] : seen.talks)
    talks.push_back({{"peer", peer},
                     {"sent", talk.sent},
                     {"received", talk.received},
                     {"refused", talk.refused}});
  return {{"node", printable(node.name)},
          {"process", node.process},
          {"runs", node.runs},
          {"closed", seen.closed},
          {"covered_ns", seen.covered().count()},
          {"overtaken", seen.overtaken},
          {"records", seen.records},
          {"paths", std::move(paths)},
          {"blocks", found_json(seen)},
          {"notifications", std::move(talks)},
          {"lost", seen.lost}};
}

}  // namespace towpath::tools
