#include "tools/record/flight_tail.h"

#include <algorithm>

#include <towpath/core/format.h>

#include "tools/flight_read.h"

namespace towpath::tools {
namespace {

using telemetry::FlightEvent;
using telemetry::FlightFlow;
using telemetry::FlightLog;
using telemetry::FlightRecord;

std::string name_in(const FlightLog& log, std::uint64_t number) {
  const std::string_view name = log.name(number);
  return name.empty() ? "unknown" : path_safe(name);
}

/// From `began` to `at`, of a file that may say anything: no overflow, and nothing before.
Duration time_since(Duration began, Duration at) {
  if (at < began) return Duration(0);
  const auto apart =
      static_cast<std::uint64_t>(at.count()) - static_cast<std::uint64_t>(began.count());
  return Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(apart, INT64_MAX)));
}

MemoryKind known_kind(MemoryKind kind) {
  return memory_kind_from_number(static_cast<std::uint64_t>(kind)).value_or(MemoryKind::system);
}

}  // namespace

std::vector<RecordedTransfer> FlightTail::take(const FlightLog& log) {
  ended_.clear();
  if (log.records.empty()) return {};
  const std::uint64_t oldest = log.records.front().ticket;
  if (!seen_.empty() && oldest > seen_.back() + 1) missed_ += oldest - seen_.back() - 1;
  std::vector<std::uint64_t> tickets;
  tickets.reserve(log.records.size());
  for (const FlightRecord& record : log.records) {
    tickets.push_back(record.ticket);
    // One that was being written at the last look stands among those that were seen.
    if (!std::ranges::binary_search(seen_, record.ticket)) see(log, record);
  }
  seen_ = std::move(tickets);
  const std::uint64_t gone = log.recorded - std::min(log.recorded, log.capacity);
  ends_.erase(ends_.begin(), ends_.lower_bound(gone));  // their posts were overwritten
  while (open_.size() > kMostOpen)
    ended_.push_back(std::move(open_.extract(open_.begin()).mapped()));
  return std::move(ended_);
}

void FlightTail::see(const FlightLog& log, const FlightRecord& record) {
  closed_ = event_of(record) == FlightEvent::agent_closed;
  if (event_of(record) == FlightEvent::transfer_posted) {
    open_[record.ticket] = posted(log, record);
    if (const auto end = ends_.extract(record.ticket)) settle(record.ticket, end.mapped());
  }
  if (event_of(record) != FlightEvent::transfer_ended) return;
  if (open_.contains(record.args[0]))
    settle(record.args[0], record);
  else
    ends_[record.args[0]] = record;
}

void FlightTail::settle(std::uint64_t ticket, const FlightRecord& end) {
  RecordedTransfer transfer = std::move(open_.extract(ticket).mapped());
  transfer.took = Duration(static_cast<std::int64_t>(end.args[2] & INT64_MAX));
  transfer.outcome = FlightFlow::unpacked(end.args[3]).outcome;
  ended_.push_back(std::move(transfer));
}

RecordedTransfer FlightTail::posted(const FlightLog& log, const FlightRecord& record) const {
  const FlightFlow flow = FlightFlow::unpacked(record.args[2]);
  return {.at = time_since(began_, log.since_epoch(record.at)),
          .node = node_,
          .peer = name_in(log, record.who),
          .backend = name_in(log, flow.backend),
          .op = flow.op == TransferOp::write ? TransferOp::write : TransferOp::read,
          .local = known_kind(flow.local),
          .remote = known_kind(flow.remote),
          .bytes = record.args[0],
          .descriptors = record.args[1],
          .runs = record.args[3]};
}

std::vector<RecordedTransfer> FlightTail::rest() const {
  std::vector<RecordedTransfer> all;
  for (const auto& [ticket, transfer] : open_) all.push_back(transfer);
  return all;
}

}  // namespace towpath::tools
