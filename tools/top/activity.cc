#include "tools/top/activity.h"

#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/telemetry/flight_recorder.h>

#include "tools/flight_read.h"

namespace towpath::tools {
namespace {

using telemetry::FlightEvent;
using telemetry::FlightFlow;
using telemetry::FlightLog;
using telemetry::FlightRecord;

class Observer {
 public:
  Observer(const FlightLog& log, Activity& out) : log_(log), out_(out) {}

  void see(const FlightRecord& record) {
    const bool counts = record.at >= out_.from && record.at <= out_.to;
    if (counts) ++out_.records;
    const std::string who = printable(log_.name(record.who));
    switch (event_of(record)) {
      case FlightEvent::transfer_posted: open_[record.ticket] = &record; break;
      case FlightEvent::transfer_ended:
        open_.erase(record.args[0]);
        if (counts) end(record);
        break;
      case FlightEvent::peer_lost:
        if (counts) out_.lost.push_back(who);
        break;
      case FlightEvent::notification_sent: out_.talks[who].sent += counts; break;
      case FlightEvent::notification_received: out_.talks[who].received += counts; break;
      case FlightEvent::notification_refused: out_.talks[who].refused += counts; break;
      case FlightEvent::blocks_found:
        if (counts) find(record, who);
        break;
      default: break;
    }
    out_.closed = event_of(record) == FlightEvent::agent_closed;
  }

  void finish() {
    for (const auto& [ticket, record] : open_) {
      Activity::Figures& figures = figures_of(*record, record->args[2]);
      if (figures.in_flight++ == 0) figures.oldest = record->at;
      figures.bytes_in_flight += record->args[0];
    }
    for (auto& [path, figures] : out_.paths) std::ranges::sort(figures.times);
    std::erase_if(out_.talks, [](const auto& talk) {
      return talk.second.sent + talk.second.received + talk.second.refused == 0;
    });
  }

 private:
  void end(const FlightRecord& record) {
    Activity::Figures& figures = figures_of(record, record.args[3]);
    ++figures.ended;
    figures.bytes += record.args[1];
    figures.times.emplace_back(static_cast<std::int64_t>(record.args[2] & INT64_MAX));
    if (FlightFlow::unpacked(record.args[3]).outcome != Outcome::done) ++figures.failed;
  }

  void find(const FlightRecord& record, const std::string& where) {
    Activity::Found& found = out_.found[{record.args[1], where}];
    found.blocks += record.args[0];
    found.bytes += record.args[3];
    if (record.args[2] != 0) out_.missed += record.args[0];
  }

  Activity::Figures& figures_of(const FlightRecord& record, std::uint64_t packed) {
    const FlightFlow flow = FlightFlow::unpacked(packed);
    return out_.paths[{printable(log_.name(record.who)), printable(log_.name(flow.backend)),
                       std::string(name_of(flow.op))}];
  }

  const FlightLog& log_;
  Activity& out_;
  std::map<std::uint64_t, const FlightRecord*> open_;  // by ticket
};

}  // namespace

Activity activity_of(const FlightLog& log, Instant from, Instant to) {
  Activity out{.from = from, .to = to};
  if (!log.records.empty() && log.recorded > log.records.size() &&
      log.records.front().at > from) {  // what came before was written over
    out.from = log.records.front().at;
    out.overtaken = true;
  }
  out.from = std::min(std::max(out.from, log.started), out.to);
  Observer observer(log, out);
  for (const FlightRecord& record : log.records) observer.see(record);
  observer.finish();
  return out;
}

}  // namespace towpath::tools
