// `towpath flight`: what a process did last, read from the flight recorder that it left, or that it
// still writes. The file is hostile: a torn record is skipped and counted. `towpath top` reads the
// same files; its options stand here, too, what it does in top/.
#include <algorithm>
#include <ctime>
#include <map>
#include <span>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <towpath/core/format.h>
#include <towpath/telemetry/flight_log.h>
#include <towpath/telemetry/flight_recorder.h>

#include "tools/command.h"
#include "tools/flight_read.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/top/top.h"
#include "tools/units.h"

namespace towpath::tools {
namespace {

using telemetry::FlightEvent;
using telemetry::FlightFlow;
using telemetry::FlightLog;
using telemetry::FlightRecord;

constexpr const char* kFooter =
    R"(A process writes one with NIXL_TELEMETRY_ENABLE=1 where NIXL_TELEMETRY_DIR says, or where its own
code does: DIRECTORY/AGENT.PID.flight. It can be read while it is written, and after a crash. Times
are UTC. The transfers that had not ended stand last.

Exit status: 0 it was read; 1 it is no flight recorder; 3 the file cannot be opened.

Examples:
  towpath flight flights/decode-0.4711.flight
  towpath flight flights/decode-0.4711.flight --last 20
  towpath flight flights/decode-0.4711.flight --json - | jq '.records[-1]')";

constexpr const char* kTopFooter =
    R"(A node writes a flight recorder with NIXL_TELEMETRY_ENABLE=1 where NIXL_TELEMETRY_DIR says, or where
its own code does. Of nodes that run the last interval is shown, as far as the recorder holds it; of
others all that they left. It ends when no node runs any more, or with q; j, k and the arrows
scroll. Where the output is no terminal, one look follows the other.

Exit status: 0 it was shown; 1 a file is no flight recorder; 3 there is none.

Examples:
  towpath top flights
  towpath top flights/decode-0.4711.flight --interval 5
  towpath top flights --once --json - | jq '.nodes[].paths')";

struct FlightOptions {
  std::string file;
  std::string json;
  std::uint64_t last = 0;  ///< 0: all
};

// ---- what a record says ----

MemoryKind kind_of(std::uint64_t number) {
  return static_cast<MemoryKind>(static_cast<std::uint8_t>(std::min<std::uint64_t>(number, 255)));
}

/// Figures by name: a program reads them as they are, a person as sentences.
nlohmann::ordered_json figures_of(const FlightLog& log, const FlightRecord& record) {
  const auto& args = record.args;
  const auto flow = [&](std::uint64_t packed, nlohmann::ordered_json out) {
    const FlightFlow how = FlightFlow::unpacked(packed);
    out["backend"] = printable(log.name(how.backend));
    out["op"] = name_of(how.op);
    out["local"] = name_of(how.local);
    out["remote"] = name_of(how.remote);
    if (event_of(record) == FlightEvent::transfer_ended) {
      out["outcome"] = name_of(how.outcome);
      out["status"] = name_of(how.code);
    }
    return out;
  };
  switch (event_of(record)) {
    case FlightEvent::agent_opened:
    case FlightEvent::agent_closed:
    case FlightEvent::peer_met: return {{"incarnation", hex(args[0])}};
    case FlightEvent::peer_lost:
      return {{"incarnation", hex(args[0])},
              {"status", name_of(static_cast<Code>(static_cast<std::uint8_t>(args[1])))}};
    case FlightEvent::transfer_posted:
      return flow(args[2], {{"bytes", args[0]}, {"descriptors", args[1]}, {"runs", args[3]}});
    case FlightEvent::transfer_ended:
      return flow(args[3], {{"posted", args[0]}, {"bytes", args[1]}, {"nanoseconds", args[2]}});
    case FlightEvent::registered:
    case FlightEvent::deregistered:
      return {{"bytes", args[0]}, {"kind", name_of(kind_of(args[1]))}};
    case FlightEvent::notification_sent:
    case FlightEvent::notification_received:
    case FlightEvent::notification_refused: return {{"bytes", args[0]}};
    case FlightEvent::blocks_found:
      return {{"blocks", args[0]}, {"tier", args[1]}, {"bytes", args[3]}};
  }
  return {{"what", record.what}, {"args", record.args}};
}

/// Posted, and not ended by the last record.
std::vector<const FlightRecord*> open_transfers(const FlightLog& log) {
  std::map<std::uint64_t, const FlightRecord*> open;
  for (const FlightRecord& record : log.records) {
    if (event_of(record) == FlightEvent::transfer_posted) open[record.ticket] = &record;
    if (event_of(record) == FlightEvent::transfer_ended) open.erase(record.args[0]);
  }
  std::vector<const FlightRecord*> all;
  for (const auto& [ticket, record] : open) all.push_back(record);
  return all;
}

std::span<const FlightRecord> shown_of(const FlightLog& log, const FlightOptions& options) {
  const std::span<const FlightRecord> all(log.records);
  return options.last == 0 ? all : all.last(std::min<std::uint64_t>(options.last, all.size()));
}

// ---- for people ----

std::string time_text(const FlightLog& log, Instant at) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t since = log.since_epoch(at).count();
  const std::int64_t within = ((since % kSecond) + kSecond) % kSecond;
  const auto seconds = static_cast<std::time_t>((since - within) / kSecond);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06}", fmt::gmtime(seconds), within / 1000);
}

std::string details_text(const FlightLog& log, const FlightRecord& record) {
  const auto& args = record.args;
  const auto way = [&](std::uint64_t packed) {
    const FlightFlow flow = FlightFlow::unpacked(packed);
    return cat(name_of(flow.op), " ", name_of(flow.local), " <-> ", name_of(flow.remote), " over ",
               printable(log.name(flow.backend)));
  };
  switch (event_of(record)) {
    case FlightEvent::transfer_posted:
      return cat(way(args[2]), ", ", format_bytes(args[0]), " in ", args[1]);
    case FlightEvent::transfer_ended: {
      const FlightFlow flow = FlightFlow::unpacked(args[3]);
      const auto time = Duration(static_cast<std::int64_t>(args[2] & INT64_MAX));
      return cat(way(args[3]), ", ", name_of(flow.outcome), ", ", format_bytes(args[1]), " in ",
                 duration_text(time), ", #", args[0]);
    }
    default: break;
  }
  std::string text;
  const nlohmann::ordered_json figures = figures_of(log, record);
  for (const auto& [name, value] : figures.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += cat(text.empty() ? "" : ", ", name, " ", shown);
  }
  return text;
}

Tone tone_of(const FlightRecord& record) {
  if (event_of(record) == FlightEvent::peer_lost) return Tone::bad;
  if (event_of(record) != FlightEvent::transfer_ended) return Tone::plain;
  return FlightFlow::unpacked(record.args[3]).outcome == Outcome::done ? Tone::plain : Tone::bad;
}

std::string head_text(const FlightLog& log) {
  const bool closed =
      !log.records.empty() && event_of(log.records.back()) == FlightEvent::agent_closed;
  return cat(
      "process ", log.process, ", since ", time_text(log, log.started),
      " UTC: ", grouped(log.recorded), " records, the last ", grouped(log.records.size()),
      " are here", log.dropped > 0 ? cat(", ", grouped(log.dropped), " dropped") : std::string(),
      log.torn > 0 ? cat(", ", grouped(log.torn), " torn") : std::string(), "; ",
      closed ? "the agent was closed" : "the agent was not closed: it runs, or it crashed", "\n\n");
}

void add_row(Table& table, const FlightLog& log, const FlightRecord& record) {
  table.add({cat("#", record.ticket), time_text(log, record.at),
             Cell(std::string(name_of(event_of(record))), tone_of(record)),
             printable(log.name(record.who)), details_text(log, record)});
}

std::string log_text(const FlightLog& log, const FlightOptions& options, Colours colours) {
  Table table({{"", Align::right}, {"time"}, {"event"}, {"who"}, {"details"}});
  for (const FlightRecord& record : shown_of(log, options)) add_row(table, log, record);
  std::string text = head_text(log) + table.text(colours);
  const auto open = open_transfers(log);
  if (open.empty()) return text;
  Table unended({{"", Align::right}, {"time"}, {"event"}, {"who"}, {"details"}});
  for (const FlightRecord* record : open) add_row(unended, log, *record);
  return cat(text, "\n", grouped(open.size()), " had not ended:\n", unended.text(colours));
}

// ---- for programs ----

nlohmann::ordered_json to_json(const FlightLog& log, const FlightRecord& record) {
  nlohmann::ordered_json out{{"ticket", record.ticket},
                             {"since_epoch_ns", log.since_epoch(record.at).count()},
                             {"event", name_of(event_of(record))},
                             {"who", printable(log.name(record.who))}};
  out.update(figures_of(log, record));
  return out;
}

nlohmann::ordered_json to_json(const FlightLog& log, const FlightOptions& options) {
  nlohmann::ordered_json out{{"process", log.process},
                             {"started_since_epoch_ns", log.started_since_epoch.count()},
                             {"capacity", log.capacity},
                             {"recorded", log.recorded},
                             {"dropped", log.dropped},
                             {"torn", log.torn},
                             {"not_ended", nlohmann::ordered_json::array()},
                             {"records", nlohmann::ordered_json::array()}};
  for (const FlightRecord* record : open_transfers(log)) out["not_ended"].push_back(record->ticket);
  for (const FlightRecord& record : shown_of(log, options))
    out["records"].push_back(to_json(log, record));
  return out;
}

Result<Exit> read_and_report(const FlightOptions& options) {
  TOWPATH_TRY(const FlightLog log, read_flight_file({.path = options.file, .named = true}));
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, to_json(log, options)));
  if (options.json == "-") return Exit::ok;
  TOWPATH_TRY(Output out, Output::open("-"));
  TOWPATH_TRY(out.write(log_text(log, options, out.is_terminal() ? Colours::yes : Colours::no)));
  TOWPATH_TRY(out.close());
  return Exit::ok;
}

}  // namespace

void add_flight(Command& towpath) {
  Command command =
      towpath.add("flight", "Report what a process did last, from its flight recorder");
  const auto options = std::make_shared<FlightOptions>();
  command.option("file", options->file, "The flight recorder").required().takes(" ");
  command.option("--last", options->last, "Print so many records at most; 0: all").whole();
  command.output("--json", options->json, "The same for programs; - is standard output");
  command.footer(kFooter);
  command.when_chosen([options] { return read_and_report(*options); });
}

void add_top(Command& towpath) {
  struct Arguments {
    TopOptions options;
    double interval_s = 1;
  };
  Command command = towpath.add("top", "Show what running nodes do, in the terminal");
  const auto arguments = std::make_shared<Arguments>();
  TopOptions& options = arguments->options;
  command.option("place", options.places, "Flight recorders, or directories of them")
      .required()
      .takes(" ");
  command.option("--interval", arguments->interval_s, "Seconds between two looks")
      .between(0.05, 3600.0)
      .takes("S [1]");
  command.flag("--once", options.once, "Look once, and end");
  command.output("--json", options.json,
                 "With --once: the same for programs; - is standard output");
  command.footer(kTopFooter);
  command.when_chosen([arguments]() -> Result<Exit> {
    TopOptions& chosen = arguments->options;
    chosen.interval = Duration(static_cast<std::int64_t>(arguments->interval_s * 1e9));
    chosen.once = chosen.once || !chosen.json.empty();
    TOWPATH_TRY(run_top(chosen));
    return Exit::ok;
  });
}

}  // namespace towpath::tools
