#include <algorithm>
#include <map>

#include <towpath/core/format.h>
#include <towpath/run/poller.h>
#include <towpath/staging/lane.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/telemetry/log.h>

namespace towpath::staging {
namespace {

using namespace backend;

// Copies of all slots between host and device; far more than they take.
constexpr Duration kQuiescenceBound = std::chrono::seconds(1);

Capabilities with_devices(Capabilities can) {
  std::vector<SupportedPair> more;
  for (SupportedPair pair : can.pairs) {
    if (pair.local != MemoryKind::pinned) continue;
    pair.local = MemoryKind::device;
    more.push_back(pair);
  }
  can.pairs.insert(can.pairs.end(), more.begin(), more.end());
  if (can.quiesced == Quiescence::immediate) can.quiesced = Quiescence::bounded;
  if (can.quiesced == Quiescence::bounded) can.quiescence_bound += kQuiescenceBound;
  return can;
}

/// A store takes an object whole, so no slot may hold a part of what goes to one.
void note_kind(const Result<std::unique_ptr<Memory>>& made, MemoryKind kind) {
  if (made.ok() && *made != nullptr) (*made)->is_put_whole = kind == MemoryKind::object;
}

class StagedBackend final : public Backend, private Events {
 public:
  StagedBackend(const BackendContext& context, const Devices& devices, const Slots& slots,
                std::unique_ptr<run::Waker> waker, run::Poller poller)
      : events_(*context.events),
        devices_(devices),
        slots_(slots),
        log_(context.log_as("staging")),
        waker_(std::move(waker)),
        poller_(std::move(poller)) {}

  Status open(const BackendType& inner, BackendContext context);

  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::unique_ptr<Memory>> register_memory(const RegionDescriptor& region) override;
  /// Of a device's memory there is no doubt: it is named by its address.
  Status confirm(const Memory& memory, const RegionDescriptor& region) const override {
    return region.kind == MemoryKind::device ? Status() : inner_->confirm(memory, region);
  }
  Bytes connection_info() const override { return inner_->connection_info(); }
  Result<std::unique_ptr<Connection>> connect(const AgentIdentity& peer,
                                              ConstByteSpan info) override {
    return inner_->connect(peer, info);
  }
  Result<std::unique_ptr<Memory>> import_memory(Connection& connection,
                                                const RegionDescriptor& region,
                                                ConstByteSpan key) override;
  void import_memories(Connection& connection, std::span<Import> list) override;
  std::unique_ptr<PeerPieces> pieces_under_way() override { return inner_->pieces_under_way(); }
  std::unique_ptr<Operation> make_operation() override {
    return std::make_unique<StagedOperation>(inner_->make_operation(), events_);
  }
  Status notify(Connection& connection, ConstByteSpan message) override {
    return inner_->notify(connection, message);
  }
  void teardown(Connection& connection) override {
    inner_->teardown(connection);
    for (const auto& [ordinal, lane] : lanes_) lane->catch_up();
  }
  bool progress() override;
  int wait_fd() const override { return poller_.fd(); }
  Cost cost(const Connection& connection) const override { return inner_->cost(connection); }
  std::string describe_path(const Memory& local, const Memory& remote) const override;
  Result<std::vector<std::optional<Params>>> query(
      std::span<const RegionDescriptor> descriptors) override {
    return inner_->query(descriptors);
  }

 private:
  // What the inner backend reports.
  void on_complete(Operation& operation, const Completion& completion) override {
    static_cast<Listener*>(operation.owner)->on_end(completion);
  }
  bool on_notification(const AgentIdentity& from, ConstByteSpan message) override {
    return events_.on_notification(from, message);
  }
  void on_peer_lost(Connection& connection, const Status& why) override {
    events_.on_peer_lost(connection, why);
  }

  Result<Lane*> lane_of(unsigned ordinal);

  Events& events_;
  const Devices devices_;
  const Slots slots_;
  telemetry::Log log_;
  const std::unique_ptr<run::Waker> waker_;  // woken by copies that have ended
  run::Poller poller_;
  std::unique_ptr<Backend> inner_;
  Capabilities capabilities_;
  bool serves_devices_ = false;  // the inner backend, to peers
  std::shared_ptr<device::Driver> driver_;
  std::map<unsigned, std::unique_ptr<Lane>> lanes_;  // by device; last: they use all of the above
};

Status StagedBackend::open(const BackendType& inner, BackendContext context) {
  context.events = this;
  TOWPATH_TRY(inner_, inner.open(context));
  capabilities_ = with_devices(inner_->capabilities());
  serves_devices_ = std::ranges::any_of(
      inner_->capabilities().pairs,
      [](const SupportedPair& pair) { return pair.remote == MemoryKind::device; });
  TOWPATH_TRY(poller_.add(waker_->fd(), 0));
  return inner_->wait_fd() < 0 ? Status() : poller_.add(inner_->wait_fd(), 1);
}

Result<std::unique_ptr<Memory>> StagedBackend::register_memory(const RegionDescriptor& region) {
  if (region.kind != MemoryKind::device) {
    auto made = inner_->register_memory(region);
    note_kind(made, region.kind);
    return made;
  }
  TOWPATH_TRY(check_region("staging", capabilities_, region));
  TOWPATH_TRY(Lane * lane, lane_of(device::ordinal_of(region.device_id)));
  std::unique_ptr<Memory> served;
  if (serves_devices_) {
    TOWPATH_TRY(served, inner_->register_memory(region));
  }
  return std::make_unique<StagedMemory>(*lane, std::move(served));
}

Result<Lane*> StagedBackend::lane_of(unsigned ordinal) {
  if (const auto known = lanes_.find(ordinal); known != lanes_.end()) return known->second.get();
  if (driver_ == nullptr) {
    TOWPATH_TRY(driver_, devices_.open());
  }
  TOWPATH_TRY(auto device, driver_->open(ordinal));
  TOWPATH_TRY(auto lane, Lane::open(std::move(device), *inner_, *waker_, slots_));
  log_.info("device memory is staged", {{"device", cat(ordinal)}, {"how", lane->describe()}});
  if (!lane->refusal().ok())
    log_.warning("no pinned memory: copies to and from the device are slower",
                 {{"why", lane->refusal().to_string()}});
  return lanes_.emplace(ordinal, std::move(lane)).first->second.get();
}

Result<std::unique_ptr<Memory>> StagedBackend::import_memory(Connection& connection,
                                                             const RegionDescriptor& region,
                                                             ConstByteSpan key) {
  if (region.kind != MemoryKind::device || serves_devices_) {
    auto made = inner_->import_memory(connection, region, key);
    note_kind(made, region.kind);
    return made;
  }
  return error(Code::unsupported, "a peer's device memory is not staged from here",
               "use ucx, whose peers move it themselves; or let the peer read or write");
}

void StagedBackend::import_memories(Connection& connection, std::span<Import> list) {
  const auto is_refused = [&](const Import& one) {
    return one.region->kind == MemoryKind::device && !serves_devices_;
  };
  if (std::ranges::any_of(list, is_refused)) return Backend::import_memories(connection, list);
  inner_->import_memories(connection, list);
  for (const Import& one : list) note_kind(one.memory, one.region->kind);
}

bool StagedBackend::progress() {
  waker_->clear();  // first: what ends from here on is seen below, or wakes again
  bool worked = inner_->progress();
  for (const auto& [ordinal, lane] : lanes_) worked = lane->progress() || worked;
  return worked;
}

std::string StagedBackend::describe_path(const Memory& local, const Memory& remote) const {
  const auto* staged = dynamic_cast<const StagedMemory*>(&local);
  if (staged == nullptr) return inner_->describe_path(local, remote);
  const Lane& lane = staged->lane();
  return cat(lane.describe(), ", then ", inner_->describe_path(lane.registered(), remote));
}

// ---- the type

struct Allowed {
  std::uint64_t otherwise;  ///< where it is not there
  std::uint64_t most;
};

/// Takes a number of our own out of the parameters. Errors: invalid_argument.
Result<std::uint64_t> take(Params& params, const std::string& name, const Allowed& allowed) {
  const auto found = params.find(name);
  if (found == params.end()) return allowed.otherwise;
  const auto value = parse_bytes(found->second);
  if (!value.ok() || *value == 0 || *value > allowed.most)
    return error(Code::invalid_argument, cat(name, "='", printable(found->second), "'"),
                 cat("use 1 to ", allowed.most));
  params.erase(found);
  return *value;
}

Result<std::unique_ptr<Backend>> open_staged(const BackendType& inner, const Devices& devices,
                                             BackendContext context) {
  Slots slots;
  TOWPATH_TRY(const std::uint64_t count,
              take(context.params, "staging_slots", {.otherwise = slots.count, .most = 1024}));
  TOWPATH_TRY(slots.bytes,
              take(context.params, "staging_bytes", {.otherwise = slots.bytes, .most = kGiB}));
  slots.count = static_cast<std::uint32_t>(count);
  if (!devices.may_exist()) return inner.open(context);
  TOWPATH_TRY(auto waker, run::Waker::open());
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  auto backend =
      std::make_unique<StagedBackend>(context, devices, slots, std::move(waker), std::move(poller));
  TOWPATH_TRY(backend->open(inner, std::move(context)));
  return backend;
}

}  // namespace

BackendType staged(BackendType inner, Devices devices) {
  BackendType type = inner;
  type.params.push_back({"staging_slots", "8", "slots of host memory for device memory"});
  type.params.push_back({"staging_bytes", "2M", "bytes of a slot"});
  type.open = [inner = std::move(inner), devices = std::move(devices)](
                  const BackendContext& context) { return open_staged(inner, devices, context); };
  return type;
}

}  // namespace towpath::staging
