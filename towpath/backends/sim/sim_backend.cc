#include <utility>

#include <towpath/backend/connection_table.h>
#include <towpath/backends/sim/sim_backend.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::backends::sim {
namespace {

using namespace backend;

constexpr std::uint64_t kMaxNotificationBytes = 64 * 1024;
constexpr int kMessagesPerCall = 64;

class SimConnection final : public TrackedConnection {
 public:
  SimConnection(ConnectionTable& table, std::shared_ptr<Endpoint> its_endpoint)
      : TrackedConnection(table, its_endpoint->identity), endpoint(std::move(its_endpoint)) {}

  const std::shared_ptr<Endpoint> endpoint;
};

class OwnMemory final : public SimMemory {
 public:
  OwnMemory(std::shared_ptr<Record> of, std::shared_ptr<Network> network,
            std::shared_ptr<Endpoint> endpoint)
      : SimMemory(std::move(of)), network_(std::move(network)), endpoint_(std::move(endpoint)) {}
  ~OwnMemory() override { network_->close_record(*endpoint_, *record); }
  Bytes key() const override { return key_of(*record); }

 private:
  const std::shared_ptr<Network> network_;
  const std::shared_ptr<Endpoint> endpoint_;
};

Capabilities sim_capabilities(const Behaviour& behaviour) {
  Capabilities can;
  can.pairs = {{.to_self = true, .to_peer = true}};
  can.notifications = behaviour.notifications;
  can.max_notification_bytes = kMaxNotificationBytes;
  can.quiesced = behaviour.quiesced;
  can.quiescence_bound = behaviour.quiescence_bound;
  can.cost = {.latency = Duration(1000), .bytes_per_second = 1e9};
  return can;
}

class SimBackend final : public Backend {
 public:
  SimBackend(const BackendContext& context, std::shared_ptr<Network> network,
             std::shared_ptr<Endpoint> endpoint)
      : events_(*context.events),
        network_(std::move(network)),
        endpoint_(std::move(endpoint)),
        capabilities_(sim_capabilities(network_->behaviour())) {}
  ~SimBackend() override { network_->close(*endpoint_); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Bytes connection_info() const override { return encode(network_->address_of(*endpoint_)); }
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override;
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override;
  Status notify(Connection& connection, ConstByteSpan message) override;
  void teardown(Connection& connection) override;
  bool progress() override;
  int wait_fd() const override { return endpoint_->waker->fd(); }
  std::string describe_path(const Memory&, const Memory&) const override {
    return "a simulated network";
  }

 private:
  friend class SimOperation;

  void launch(std::shared_ptr<Flight> flight);
  void cancel(const std::shared_ptr<Flight>& flight);
  void report_arrivals();
  bool report_messages();
  void report_losses();
  void force_down_all(const Connection& connection, const Status& why);
  Network::Path way_of(const Connection& connection) const {
    return {endpoint_, static_cast<const SimConnection&>(connection).endpoint};
  }

  Events& events_;
  const std::shared_ptr<Network> network_;
  const std::shared_ptr<Endpoint> endpoint_;
  const Capabilities capabilities_;
  ConnectionTable connections_{events_};
  std::vector<std::shared_ptr<Flight>> flights_;  // not reported yet
};

class SimOperation final : public Operation {
 public:
  explicit SimOperation(SimBackend& backend) noexcept : backend_(backend) {}
  ~SimOperation() override { TOWPATH_CHECK(!is_active(), "an active operation is destroyed"); }

  void post(const Request& request) override {
    TOWPATH_CHECK(!is_active(), "an active operation is posted again");
    flight_ = std::make_shared<Flight>(*this, request);
    backend_.launch(flight_);
  }
  void cancel() override {
    if (is_active()) backend_.cancel(flight_);
  }

 private:
  bool is_active() const noexcept { return flight_ && flight_->state != Flight::State::reported; }

  SimBackend& backend_;
  std::shared_ptr<Flight> flight_;
};

std::unique_ptr<Operation> SimBackend::make_operation() {
  return std::make_unique<SimOperation>(*this);
}

// ---- Memory

Result<std::unique_ptr<Memory>> SimBackend::register_memory(const RegionDescriptor& region) {
  TOWPATH_TRY(check_region("sim", capabilities_, region));
  return std::make_unique<OwnMemory>(network_->add_record(*endpoint_, region), network_, endpoint_);
}

Result<std::unique_ptr<Memory>> SimBackend::import_memory(Connection& connection,
                                                          const RegionDescriptor& region,
                                                          ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, id_of_key(key));
  const Endpoint& peer = *static_cast<SimConnection&>(connection).endpoint;
  TOWPATH_TRY(std::shared_ptr<Record> record, network_->find_record(peer, id, region));
  auto memory = std::make_unique<SimMemory>(std::move(record));
  memory->is_read_only = memory->record->region.is_read_only;
  return memory;
}

// ---- Peers

Result<std::unique_ptr<Connection>> SimBackend::connect(const AgentIdentity& peer,
                                                        ConstByteSpan info) {
  TOWPATH_TRY(std::shared_ptr<Endpoint> endpoint, network_->find(peer, info));
  return std::make_unique<SimConnection>(connections_, std::move(endpoint));
}

void SimBackend::report_losses() {
  connections_.mark_if([&](const TrackedConnection& connection) -> Status {
    const Endpoint& peer = *static_cast<const SimConnection&>(connection).endpoint;
    if (!network_->is_closed(peer) && !network_->is_closed(*endpoint_)) return {};
    return error(Code::peer_lost, cat(to_string(peer.identity), " was cut off"));
  });
  connections_.report_losses([&](const TrackedConnection& connection, const Status& why) {
    const bool ends_alone = capabilities_.quiesced == Quiescence::immediate ||
                            capabilities_.quiesced == Quiescence::bounded;
    if (ends_alone) force_down_all(connection, why);
  });
}

void SimBackend::teardown(Connection& connection) {
  const Status why = error(Code::peer_lost, "the connection was torn down");
  connections_.cut(static_cast<SimConnection&>(connection), why);
  force_down_all(connection, why);
}

void SimBackend::force_down_all(const Connection& connection, const Status& why) {
  for (const auto& flight : flights_) {
    if (flight->connection == &connection) network_->force_down(way_of(connection), flight, why);
  }
  report_arrivals();
}

// ---- Bytes

void SimBackend::launch(std::shared_ptr<Flight> flight) {
  flights_.push_back(flight);
  const auto& connection = static_cast<const SimConnection&>(*flight->connection);
  const Network::Path path = way_of(connection);
  if (connection.is_lost() || network_->is_closed(*connection.endpoint)) {
    network_->force_down(path, flight, error(Code::peer_lost, "the peer was cut off"));
  } else {
    network_->launch(path, std::move(flight));
  }
  report_arrivals();
}

void SimBackend::cancel(const std::shared_ptr<Flight>& flight) {
  network_->cancel(way_of(*flight->connection), flight);
  report_arrivals();
}

void SimBackend::report_arrivals() {
  while (const auto flight = network_->take_arrived(*endpoint_)) {
    std::erase(flights_, flight);
    events_.on_complete(flight->operation, flight->completion());
  }
}

// ---- Notifications and the loop

Status SimBackend::notify(Connection& connection, ConstByteSpan message) {
  TOWPATH_TRY(check_message(capabilities_, message));
  if (static_cast<SimConnection&>(connection).is_lost())
    return error(Code::peer_lost, "the connection is lost");
  return network_->send(way_of(connection), message);
}

bool SimBackend::report_messages() {
  std::set<AgentIdentity> refused;
  for (int reported = 0; reported < kMessagesPerCall; ++reported) {
    std::optional<Message> next_message = network_->take_message(*endpoint_, refused);
    if (!next_message) return false;
    if (events_.on_notification(next_message->from, next_message->message)) {
      network_->took(*endpoint_, next_message->from);
    } else {
      refused.insert(next_message->from);
      network_->put_back(*endpoint_, *std::move(next_message));
    }
  }
  return true;
}

bool SimBackend::progress() {
  endpoint_->waker->clear();
  const bool more_events = network_->run_due();
  report_arrivals();
  const bool more_messages = report_messages();
  report_losses();
  // The kernel does not see simulated time pass: who would sleep until the next event looks again.
  if (network_->has_work()) endpoint_->waker->wake();
  return more_events || more_messages;
}

}  // namespace

BackendType sim_type(std::shared_ptr<Network> network) {
  BackendType type;
  type.name = "sim";
  type.summary = "agents of one process, over a simulated network";
  type.kinds = {MemoryKind::system};
  type.probe = [](const Params&) {
    return std::vector{Finding{.question = "Can a network be simulated?",
                               .signal = "nothing: it needs plain memory only",
                               .source = "this process",
                               .verdict = Verdict::yes,
                               .reason = "it is a program",
                               .hint = {}}};
  };
  type.open = [network](const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    TOWPATH_TRY(std::shared_ptr<Endpoint> endpoint, network->open_endpoint(context.self));
    return std::make_unique<SimBackend>(context, network, std::move(endpoint));
  };
  return type;
}

}  // namespace towpath::backends::sim
