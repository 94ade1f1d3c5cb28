#include <algorithm>
#include <utility>

#include <towpath/backend/connection_table.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/backends/loopback/exchange.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/core/format.h>
#include <towpath/sys/random.h>

namespace towpath::backends::loopback {
namespace {

using namespace backend;

constexpr std::uint64_t kMaxNotificationBytes = 64 * 1024;
constexpr std::size_t kMessagesPerCall = 64;

class LoopbackConnection final : public TrackedConnection {
 public:
  LoopbackConnection(ConnectionTable& table, std::shared_ptr<Endpoint> endpoint)
      : TrackedConnection(table, endpoint->identity()), endpoint_(std::move(endpoint)) {}

  Endpoint& endpoint() const noexcept { return *endpoint_; }
  /// ok, or why the peer is gone.
  Status check() const { return is_lost() ? state() : endpoint_->check_open(); }

 private:
  const std::shared_ptr<Endpoint> endpoint_;
};

/// Registered here, or imported.
class LoopbackMemory : public Memory {
 public:
  explicit LoopbackMemory(std::shared_ptr<Record> its_record) : record(std::move(its_record)) {}

  const std::shared_ptr<Record> record;
};

class OwnMemory final : public LoopbackMemory {
 public:
  OwnMemory(std::shared_ptr<Record> its_record, std::shared_ptr<Endpoint> endpoint)
      : LoopbackMemory(std::move(its_record)), endpoint_(std::move(endpoint)) {}
  ~OwnMemory() override {
    endpoint_->remove_record(*record);
    record->close();
  }
  Bytes key() const override { return key_of(*record); }

 private:
  const std::shared_ptr<Endpoint> endpoint_;
};

Capabilities loopback_capabilities() {
  Capabilities can;
  can.pairs = host_pairs();
  can.notifications = Notifications::reliable;
  can.max_notification_bytes = kMaxNotificationBytes;
  can.quiesced = Quiescence::immediate;
  can.cost = {.latency = Duration(100), .per_segment = Duration(10), .bytes_per_second = 10e9};
  return can;
}

class LoopbackBackend final : public Backend, private SliceMover {
 public:
  LoopbackBackend(const BackendContext& context, std::shared_ptr<Exchange> exchange,
                  std::shared_ptr<Endpoint> self)
      : events_(*context.events), exchange_(std::move(exchange)), endpoint_(std::move(self)) {}
  ~LoopbackBackend() override { endpoint_->close(); }

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  Bytes connection_info() const override { return encode(exchange_->address_of(*endpoint_)); }
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override;
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  std::unique_ptr<Operation> make_operation() override { return runner_.make_operation(); }
  Status notify(Connection& connection, ConstByteSpan message) override;
  bool progress() override;
  int wait_fd() const override { return endpoint_->waker().fd(); }
  std::string describe_path(const Memory&, const Memory&) const override {
    return "memcpy within the process";
  }

 private:
  Status admit(const Request& request) override;
  Status move(SliceTask& task) override;
  bool deliver_messages();
  void report_losses();

  Events& events_;
  const Capabilities capabilities_ = loopback_capabilities();
  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<Endpoint> endpoint_;
  ConnectionTable connections_{events_};
  SliceRunner runner_{events_, *this};
  std::uint64_t turn_ = 0;              // the sender whose message was taken last
  std::vector<std::uint64_t> refused_;  // senders for which there is no room in this call
};

// ---- Memory

Result<std::unique_ptr<Memory>> LoopbackBackend::register_memory(const RegionDescriptor& region) {
  TOWPATH_TRY(check_region("loopback", capabilities_, region));
  return std::make_unique<OwnMemory>(endpoint_->add_record(region), endpoint_);
}

Result<std::unique_ptr<Memory>> LoopbackBackend::import_memory(Connection& connection,
                                                               const RegionDescriptor& region,
                                                               ConstByteSpan key) {
  TOWPATH_TRY(const std::uint64_t id, id_of_key(key));
  auto& way = static_cast<LoopbackConnection&>(connection);
  TOWPATH_TRY(std::shared_ptr<Record> record, way.endpoint().find_record(id, region));
  auto memory = std::make_unique<LoopbackMemory>(std::move(record));
  memory->is_read_only = memory->record->region.is_read_only;
  return memory;
}

// ---- Peers

Result<std::unique_ptr<Connection>> LoopbackBackend::connect(const AgentIdentity& peer,
                                                             ConstByteSpan info) {
  TOWPATH_TRY(std::shared_ptr<Endpoint> endpoint, exchange_->find(peer, info));
  // Watched before it is examined: one that closes in between wakes us, or is seen closed.
  if (endpoint != endpoint_) endpoint->add_watcher(endpoint_);
  TOWPATH_TRY(endpoint->check_open());
  return std::make_unique<LoopbackConnection>(connections_, std::move(endpoint));
}

void LoopbackBackend::report_losses() {
  connections_.mark_if([](const TrackedConnection& connection) {
    return static_cast<const LoopbackConnection&>(connection).check();
  });
  connections_.report_losses([&](const TrackedConnection& connection, const Status& why) {
    runner_.fail_all(connection, why);
  });
}

// ---- Bytes

Status LoopbackBackend::admit(const Request& request) {
  return static_cast<const LoopbackConnection&>(*request.connection).check();
}

Status LoopbackBackend::move(SliceTask& task) {
  std::uint64_t budget = kSliceBytes;
  while (budget > 0 && !task.at().done()) {
    auto& remote = static_cast<LoopbackMemory&>(*task.at().segment().remote);
    if (Record::Use inside(*remote.record); inside) {
      task.copy(0, budget);
      continue;
    }
    // All registrations of a peer that closed are closed: that is no failure of single extents.
    if (Status lost = admit(task.request()); !lost.ok()) return lost;
    task.fail_segment(error(Code::not_found,
                            cat("the peer took ", to_string(remote.record->region), " back"),
                            "load the peer's newest metadata"));
    budget -= std::min(budget, kPieceCost);
  }
  return {};
}

// ---- Notifications

Status LoopbackBackend::notify(Connection& connection, ConstByteSpan message) {
  TOWPATH_TRY(check_message(capabilities_, message));
  return static_cast<LoopbackConnection&>(connection).endpoint().deliver(*endpoint_, message);
}

bool LoopbackBackend::deliver_messages() {
  refused_.clear();
  std::size_t delivered = 0;
  Waiting next;
  // Around the senders, a message each, until one whole round brought nothing.
  for (int idle_rounds = 0; delivered < kMessagesPerCall && idle_rounds < 2;) {
    if (!endpoint_->find_next(turn_, next)) {
      turn_ = 0;
      ++idle_rounds;
      continue;
    }
    turn_ = next.sender;
    if (std::ranges::count(refused_, next.sender) > 0 ||
        !events_.on_notification(*next.from, *next.message)) {
      refused_.push_back(next.sender);
      continue;
    }
    endpoint_->pop(next);
    ++delivered;
    idle_rounds = 0;
  }
  return delivered == kMessagesPerCall;
}

bool LoopbackBackend::progress() {
  // A wake-up may be seen before the descriptor is: when there is time, the descriptor is emptied
  // in any case.
  if (!runner_.is_active() || endpoint_->waker().is_pending()) endpoint_->waker().clear();
  const bool more_messages = deliver_messages();
  report_losses();
  const bool moving = runner_.progress();
  return moving || more_messages;
}

Finding probe() {
  return {.question = "Can agents of one process reach each other?",
          .signal = "nothing: it needs plain memory only",
          .source = "this process",
          .verdict = Verdict::yes,
          .reason = "they share an address space",
          .hint = {}};
}

}  // namespace

std::shared_ptr<Exchange> make_exchange() { return std::make_shared<Exchange>(sys::random_u64()); }

BackendType loopback_type() { return loopback_type(make_exchange()); }

BackendType loopback_type(std::shared_ptr<Exchange> exchange) {
  BackendType type;
  type.name = "loopback";
  type.summary = "agents of one process, by plain copies";
  type.kinds = {kHostKinds.begin(), kHostKinds.end()};
  type.probe = [](const Params&) { return std::vector{probe()}; };
  type.open = [exchange](const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    TOWPATH_TRY(std::shared_ptr<Endpoint> endpoint, exchange->open_endpoint(context.self));
    return std::make_unique<LoopbackBackend>(context, exchange, std::move(endpoint));
  };
  return type;
}

}  // namespace towpath::backends::loopback
