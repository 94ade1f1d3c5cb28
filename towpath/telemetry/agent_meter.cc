#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::telemetry {
namespace {

constexpr std::size_t kMostFlightNames = FlightRecorder::kNames;

std::string_view name_of(PeerMeter::Direction direction) {
  switch (direction) {
    case PeerMeter::Direction::sent: return "sent";
    case PeerMeter::Direction::received: return "received";
    case PeerMeter::Direction::refused: return "refused";
  }
  return "unknown";
}

FlightEvent event_of(PeerMeter::Direction direction) {
  switch (direction) {
    case PeerMeter::Direction::sent: return FlightEvent::notification_sent;
    case PeerMeter::Direction::received: return FlightEvent::notification_received;
    case PeerMeter::Direction::refused: break;
  }
  return FlightEvent::notification_refused;
}

Label label(std::string name, std::string_view value) {
  return {std::move(name), std::string(value)};
}

}  // namespace

// ---- one flow ----

Flow::Flow(AgentMeter& meter, const Key& key, std::uint32_t flight_peer)
    : meter_(meter),
      flight_flow_{.op = key.op,
                   .local = key.local,
                   .remote = key.remote,
                   .backend = static_cast<std::uint16_t>(meter.flight_name(key.backend))},
      flight_peer_(flight_peer),
      bytes_(meter.metrics_.counter("towpath_transfer_bytes_total", meter.labels_of(key))),
      descriptors_(
          meter.metrics_.counter("towpath_transfer_descriptors_total", meter.labels_of(key))),
      in_flight_(meter.metrics_.gauge("towpath_transfers_in_flight", meter.labels_of(key))),
      bytes_in_flight_(
          meter.metrics_.gauge("towpath_transfer_bytes_in_flight", meter.labels_of(key))),
      transfer_time_(meter.metrics_.bucket_histogram(
          "towpath_transfer_nanoseconds", meter.labels_of(key), meter.options_.time_bounds)),
      post_time_(meter.metrics_.bucket_histogram("towpath_post_nanoseconds", meter.labels_of(key),
                                                 meter.options_.time_bounds)) {
  for (std::size_t i = 1; i < kOutcomes; ++i) {
    Labels labels = meter.labels_of(key);
    labels.push_back(label("outcome", towpath::name_of(static_cast<Outcome>(i))));
    outcomes_[i] = &meter.metrics_.counter("towpath_transfers_total", std::move(labels));
  }
}

std::uint64_t Flow::posted(const Posted& what) noexcept {
  in_flight_.add_alone(1);
  bytes_in_flight_.add_alone(static_cast<std::int64_t>(what.bytes));
  FlightRecorder* const flight = meter_.options_.flight;
  if (flight == nullptr) return 0;
  return flight->record_at(
      {.at = what.at,
       .what = static_cast<std::uint32_t>(FlightEvent::transfer_posted),
       .who = flight_peer_,
       .args = {what.bytes, what.descriptors, flight_flow_.packed(), what.runs}});
}

void Flow::ended(const Ended& what) noexcept {
  const auto outcome = static_cast<std::size_t>(what.outcome);
  if (outcome > 0 && outcome < kOutcomes) outcomes_[outcome]->add_alone();
  bytes_.add_alone(what.moved_bytes);
  descriptors_.add_alone(what.descriptors);
  in_flight_.add_alone(-1);
  bytes_in_flight_.add_alone(-static_cast<std::int64_t>(what.posted_bytes));
  transfer_time_.record(what.time);
  if (what.code != Code::ok) meter_.count_error(what.code);
  FlightRecorder* const flight = meter_.options_.flight;
  if (flight == nullptr) return;
  FlightFlow flow = flight_flow_;
  flow.outcome = what.outcome;
  flow.code = what.code;
  const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(what.time.count(), 0));
  flight->record_at({.at = what.at,
                     .what = static_cast<std::uint32_t>(FlightEvent::transfer_ended),
                     .who = flight_peer_,
                     .args = {what.ticket, what.moved_bytes, time, flow.packed()}});
}

// ---- one peer ----

PeerMeter::PeerMeter(AgentMeter& meter, std::string peer_label, std::uint32_t flight)
    : meter_(meter), label_(std::move(peer_label)), flight_(flight) {
  for (std::size_t i = 0; i < by_direction_.size(); ++i) {
    const Labels labels = meter.labelled(
        {label("peer", label_), label("direction", name_of(static_cast<Direction>(i)))});
    by_direction_[i] = {&meter.metrics_.counter("towpath_notifications_total", labels),
                        &meter.metrics_.counter("towpath_notification_bytes_total", labels)};
  }
}

void PeerMeter::notified(Direction direction, std::uint64_t bytes) noexcept {
  const Counters& counters = by_direction_[static_cast<std::size_t>(direction)];
  counters.messages->add();
  counters.bytes->add(bytes);
  meter_.record(event_of(direction), flight_, {bytes});
}

// ---- the meter ----

AgentMeter::AgentMeter(Metrics& metrics, Options options)
    : metrics_(metrics), options_(std::move(options)), agent_label_(name_label(options_.agent)) {
  for (std::size_t code = 1; code < errors_.size(); ++code) {
    const std::string_view name = towpath::name_of(static_cast<Code>(code));
    if (name == "unknown") break;
    errors_[code] =
        &metrics_.counter("towpath_transfer_errors_total", labelled({label("status", name)}));
  }
}

AgentMeter::~AgentMeter() = default;

Labels AgentMeter::labelled(std::initializer_list<Label> labels) const {
  Labels all{label("agent", agent_label_)};
  all.insert(all.end(), labels);
  return all;
}

Labels AgentMeter::labels_of(const Flow::Key& key) const {
  return labelled({label("backend", key.backend), label("peer", key.peer),
                   label("op", towpath::name_of(key.op)),
                   label("local", towpath::name_of(key.local)),
                   label("remote", towpath::name_of(key.remote))});
}

void AgentMeter::count_error(Code code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  if (index < errors_.size() && errors_[index] != nullptr) errors_[index]->add();
}

void AgentMeter::record(FlightEvent event, std::uint32_t who,
                        const FlightRecord::Args& args) noexcept {
  if (options_.flight == nullptr) return;
  options_.flight->record(static_cast<std::uint32_t>(event), args, who);
}

std::uint32_t AgentMeter::flight_name(std::string_view name) {
  if (options_.flight == nullptr) return 0;
  if (const auto found = flight_names_.find(name); found != flight_names_.end())
    return found->second;
  if (flight_names_.size() >= kMostFlightNames) return 0;
  const std::uint32_t number = options_.flight->add_name(name);
  flight_names_.emplace(name, number);
  return number;
}

// Peers that are not counted by name are not remembered either: a million of them cost nothing.
PeerMeter& AgentMeter::peer_of(std::string_view name) {
  if (const auto found = peers_.find(name); found != peers_.end()) return *found->second;
  if (peers_.size() >= options_.max_peers) {
    if (others_ == nullptr) others_.reset(new PeerMeter(*this, std::string(kOtherPeers), 0));
    return *others_;
  }
  std::unique_ptr<PeerMeter> made(new PeerMeter(*this, name_label(name), flight_name(name)));
  return *peers_.emplace(name, std::move(made)).first->second;
}

PeerMeter& AgentMeter::peer(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return peer_of(name);
}

Flow& AgentMeter::flow(const FlowOf& of) {
  const std::lock_guard lock(mutex_);
  const PeerMeter& peer = peer_of(of.peer);
  const Flow::Key key{std::string(of.backend), peer.label_, of.op, of.local, of.remote};
  std::unique_ptr<Flow>& flow = flows_[key];
  if (flow == nullptr) flow.reset(new Flow(*this, key, peer.flight_));
  return *flow;
}

void AgentMeter::opened(std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  record(FlightEvent::agent_opened, flight_name(options_.agent), {incarnation});
}

void AgentMeter::closed(std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  record(FlightEvent::agent_closed, flight_name(options_.agent), {incarnation});
}

void AgentMeter::count_memory(std::string_view which, const RegistrationOf& what) {
  const Labels labels =
      labelled({label("backend", what.backend), label("kind", towpath::name_of(what.kind))});
  const bool grows = which == "registered";
  const std::string_view verb = grows ? "registrations" : "deregistrations";
  metrics_.counter(cat("towpath_", verb, "_total"), labels).add();
  metrics_.counter(cat("towpath_", which, "_bytes_total"), labels).add(what.bytes);
  if (what.is_alone)
    metrics_
        .counter(cat("towpath_memory_", which, "_bytes_total"),
                 labelled({label("kind", towpath::name_of(what.kind))}))
        .add(what.bytes);
  const auto change = static_cast<std::int64_t>(what.bytes);
  metrics_.gauge("towpath_registered_bytes", labels).add(grows ? change : -change);
}

void AgentMeter::registered(const RegistrationOf& what, Code code) {
  if (code != Code::ok) {
    const Labels labels =
        labelled({label("backend", what.backend), label("kind", towpath::name_of(what.kind)),
                  label("status", towpath::name_of(code))});
    return metrics_.counter("towpath_registration_errors_total", labels).add();
  }
  const std::lock_guard lock(mutex_);
  count_memory("registered", what);
  record(FlightEvent::registered, flight_name(what.backend),
         {what.bytes, static_cast<std::uint64_t>(what.kind)});
}

void AgentMeter::deregistered(const RegistrationOf& what) {
  const std::lock_guard lock(mutex_);
  count_memory("deregistered", what);
  record(FlightEvent::deregistered, flight_name(what.backend),
         {what.bytes, static_cast<std::uint64_t>(what.kind)});
}

void AgentMeter::peer_met(std::string_view peer, std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  record(FlightEvent::peer_met, peer_of(peer).flight_, {incarnation});
}

void AgentMeter::peer_lost(std::string_view peer, std::uint64_t incarnation, Code why) {
  const std::lock_guard lock(mutex_);
  metrics_.counter("towpath_peers_lost_total", labelled({})).add();
  record(FlightEvent::peer_lost, peer_of(peer).flight_,
         {incarnation, static_cast<std::uint64_t>(why)});
}

}  // namespace towpath::telemetry
