#include <algorithm>
#include <iterator>
#include <utility>

#include <towpath/backends/messages/core.h>
#include <towpath/backends/messages/timing_params.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/run/deadline.h>
#include <towpath/sys/clock.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// Rounds of the carrier's progress in one call of ours, and in the last one of all. What brought
/// less than kWorthAnother probably took all there was: to ask again costs a system call.
constexpr int kRoundsPerCall = 8;
constexpr std::uint64_t kWorthAnother = 64 * 1024;
constexpr int kFarewellRounds = 200;
/// How often a side that ends asks whether its last notifications have arrived.
constexpr Duration kFarewellStep = std::chrono::milliseconds(1);

/// What a carrier that takes no devices moves between devices is staged before it.
std::vector<SupportedPair> pairs_of(const Carrier& carrier) {
  std::vector<SupportedPair> pairs;
  if (!carrier.takes_devices) pairs = host_pairs();
  const auto add = [&](MemoryKind local, MemoryKind remote) {
    pairs.push_back({.local = local, .remote = remote, .to_peer = true});
  };
  for (const MemoryKind host : kHostKinds) {
    add(host, MemoryKind::device);
    if (carrier.takes_devices) add(MemoryKind::device, host);
  }
  if (carrier.takes_devices) add(MemoryKind::device, MemoryKind::device);
  return pairs;
}

Capabilities capabilities_of(const Timing& timing, const Carrier& carrier) {
  Capabilities can;
  can.pairs = pairs_of(carrier);
  can.notifications = Notifications::reliable;
  can.max_notification_bytes = kMaxNoteBytes;
  can.quiesced = Quiescence::bounded;
  can.quiescence_bound = timing.dead_after({}) - Instant{};
  can.cost = carrier.cost;
  return can;
}

}  // namespace

namespace {

class BackendOperation final : public MessageOperation {
 public:
  explicit BackendOperation(MessageBackend& backend) : backend_(backend) {}

  void post(const Request& its_request) override {
    begin(its_request);
    backend_.post(*this);
  }
  void cancel() override { backend_.cancel(*this); }

 private:
  MessageBackend& backend_;
};

}  // namespace

MessageBackend::MessageBackend(const BackendContext& context, Carrier carrier, const Timing& timing,
                               device::DriverSource devices)
    : carrier_(std::move(carrier)),
      self_(context.self),
      events_(*context.events),
      clock_(*context.clock),
      timing_(timing),
      capabilities_(capabilities_of(timing, carrier_)),
      windows_(std::move(devices)) {
  log_ = context.log_as(carrier_.name);
}

Status MessageBackend::open(const BackendContext& context) {
  TOWPATH_TRY(worker_, carrier_.make_worker(context, *this));
  if (carrier_.takes_devices) windows_.use(*worker_);
  const ConstByteSpan address = worker_->address();
  if (address.size() > kMaxAddressBytes) {
    return error(Code::unsupported,
                 cat("the address of this ", carrier_.name, " worker has ", address.size(),
                     " bytes; metadata takes ", kMaxAddressBytes),
                 "choose fewer devices with the parameter devices");
  }
  info_ = make_connection_info(address);
  open_sessions(context.metrics);
  links_.emplace(clock_, worker_->buffers());
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  poller_ = std::make_unique<run::Poller>(std::move(poller));
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  timer_ = std::make_unique<run::TimerFd>(std::move(timer));
  if (worker_->fd() >= 0) TOWPATH_TRY(poller_->add(worker_->fd(), 0));
  TOWPATH_TRY(poller_->add(timer_->fd(), 1));
  protocol_ = std::make_unique<RmaProtocol>(events_, clock_, timing_, *links_, guard_,
                                            carrier_.takes_devices);
  return {};
}

// A transfer's handle keeps its backend, and may outlive the agent and what it was given: no clock,
// no log and no events from here on.
MessageBackend::~MessageBackend() {
  if (!worker_) return;
  closing_ = true;
  if (!links_) return;
  try {
    say_farewell();
  } catch (const std::bad_alloc&) {  // peers learn it from the broken connection
  }
  links_.reset();
  sessions_.reset();
  worker_.reset();
}

void MessageBackend::say_farewell() {
  for (const auto& [session, rail] : links_->rails()) {
    if (!rail->is_up()) continue;
    auto buffer = worker_->buffers().take();
    const Instant now = sessions_->last_turn();
    FrameWriter(*buffer, rail->header(FrameKind::bye, now)).finish();
    (void)rail->session->send(std::move(buffer), now);
  }
  const auto unsent = [](const auto& entry) {
    return entry.second->is_up() && entry.second->session->unsent() > 0;
  };
  // Peers learn it from the broken connection too, only less precisely: no need to wait long.
  for (int i = 0; i < kFarewellRounds && std::ranges::any_of(links_->rails(), unsent); ++i)
    worker_->progress();
  wait_for_last_notes();
}

// What was accepted is kept for a peer that takes it slowly, as long as one that takes nothing is
// not lost. By the kernel's clock: the one that was given may be gone.
void MessageBackend::wait_for_last_notes() {
  if (worker_->fd() < 0) return;  // a network of a test's: nothing comes while it waits
  const auto still_leave = [](const auto& entry) {
    const Rail& rail = *entry.second;
    return rail.is_up() && !rail.link.notes.unanswered.empty() &&
           !rail.session->endpoint()->has_arrived();
  };
  if (std::ranges::none_of(links_->rails(), still_leave)) return;
  timer_->disarm();
  const Clock& clock = sys::system_clock();
  const auto until = run::Deadline::after(clock, timing_.timeout);
  while (std::ranges::any_of(links_->rails(), still_leave) && !until.expired(clock))
    if (!worker_->progress()) (void)poller_->wait(kFarewellStep);
}

// ---- Memory

Result<std::unique_ptr<Memory>> MessageBackend::register_memory(const RegionDescriptor& region) {
  TOWPATH_TRY(check_region(carrier_.name, capabilities_, region));
  DeviceWindow* window = nullptr;
  if (region.kind == MemoryKind::device) {
    TOWPATH_TRY(window, windows_.of(device::ordinal_of(region.device_id)));
  }
  if (window == nullptr && region.may_fault) TOWPATH_TRY(guard_.open());
  return std::unique_ptr<Memory>(new (slab_) OwnMemory(slab_, region, target_, window));
}

Result<std::unique_ptr<Memory>> MessageBackend::import_memory(Connection& connection,
                                                              const RegionDescriptor& region,
                                                              ConstByteSpan bytes) {
  TOWPATH_TRY(const MemoryKey key, decode_key(bytes));
  const bool is_ours = link_of(connection) == nullptr;
  const bool moves = region.kind == MemoryKind::device && !is_ours;
  if (!is_host_addressable(region.kind) && !moves)
    return error(Code::unsupported, cat(carrier_.name, " cannot move ", name_of(region.kind),
                                        " memory", is_ours ? " to and from oneself" : ""));
  if (region.address < key.address || region.length == 0 ||
      !range_fits(region.address - key.address, region.length, key.length)) {
    return error(Code::corrupt, cat(to_string(region), " is not inside of what was registered: ",
                                    hex(key.address), " +", key.length));
  }
  if (is_ours) {
    const RegionDescriptor* own = target_.find(key.token);
    if (own == nullptr || !own->covers({region.address, region.length, region.device_id}))
      return error(Code::corrupt, cat("the key is not that of ", to_string(region)));
  }
  return std::make_unique<ImportedMemory>(
      region, key, is_ours ? info_.instance : link_of(connection)->instance());
}

std::string MessageBackend::describe_path(const Memory& local, const Memory& remote) const {
  if (dynamic_cast<const OwnMemory*>(&remote) != nullptr ||
      target_.find(static_cast<const MessageMemory&>(remote).token) != nullptr)
    return "loads and stores within the process";
  const bool device = static_cast<const MessageMemory&>(remote).region.kind == MemoryKind::device;
  const bool from_device = static_cast<const OwnMemory&>(local).window != nullptr;
  return cat(carrier_.path, from_device ? ", from and to a room of the device" : "",
             "; the owner of the memory moves the bytes",
             device ? ", by copies of its device that it waits for" : "",
             describe_rails(static_cast<const ImportedMemory&>(remote).instance));
}

// ---- Operations

std::unique_ptr<Operation> MessageBackend::make_operation() {
  return std::make_unique<BackendOperation>(*this);
}

void MessageBackend::post(MessageOperation& operation) {
  if (Link* const link = link_of(*operation.request.connection)) {
    links_->list(*link);
    return protocol_->post(operation);
  }
  if (operation.to_self == nullptr) {
    operation.to_self = self_runner_.make_operation();
    operation.to_self->owner = &operation;
  }
  operation.to_self->post(operation.request);
}

void MessageBackend::cancel(MessageOperation& operation) {
  if (!operation.active) return;
  if (link_of(*operation.request.connection) != nullptr) return protocol_->cancel(operation);
  operation.to_self->cancel();
}

Status MessageBackend::move(SliceTask& task) {
  std::uint64_t budget = kSliceBytes;
  while (budget > 0 && !task.at().done()) {
    const auto& remote = static_cast<const MessageMemory&>(*task.at().segment().remote);
    if (target_.find(remote.token) != nullptr) {
      task.copy(0, budget);
      continue;
    }
    task.fail_segment(error(Code::not_found, cat(to_string(remote.region), " was taken back")));
    budget -= std::min(budget, kPieceCost);
  }
  return {};
}

// ---- The loop

void MessageBackend::beat(Rail& rail, Instant now) {
  net::Session& session = *rail.session;
  const bool is_unused = rail.link.is_unused();
  if (Status silent = sessions_->check_silence(session, now); !silent.ok())
    return is_unused ? links_->break_off(rail.link, silent)
                     : links_->break_off(rail, std::move(silent));
  if (is_unused && !rail.says_in_use) return;  // both know: it falls silent, and each lets it go
  if (sessions_->is_silent_side(session, now)) links_->send_plain(rail, FrameKind::alive);
}

void MessageBackend::beat(Instant now) {
  for (const auto& [session, rail] : links_->rails())
    if (!rail->lost) beat(*rail, now);
  redial(now);
}

// `pumps`: else what is to be repeated waits for the next call, which comes at once.
Instant MessageBackend::expire(Instant now, bool pumps) {
  Instant next = Instant::never();
  for (Link* const link : links_->busy()) {
    next = std::min(next, protocol_->expire(*link, now));
    if (!link->has_several) continue;
    erase_drained(*link);
    if (pumps) protocol_->pump(*link);
  }
  return next;
}

/// Requests and notifications of all peers, until it is enough for one call. False: some are left.
bool MessageBackend::drive_links(Instant now) {
  const auto moved = [this] { return protocol_->sent_bytes() + offered_bytes_; };
  const std::uint64_t before = moved();
  return links_->drive_busy(
      [this, now](Link& link) {
        if (link.has_several) tend(link, now);
        protocol_->pump(link);
        offer_notes(link);
      },
      [&] { return moved() - before >= kSliceBytes; });
}

/// False: nothing has happened.
bool MessageBackend::drive_carrier() {
  std::uint64_t work = 0;
  for (int i = 0; i < kRoundsPerCall && work < kSliceBytes; ++i) {
    if (!worker_->progress()) return i > 0;
    const std::uint64_t round = worker_->work();
    if (round > 0 && round < kWorthAnother) break;
    work += round;
  }
  return true;
}

bool MessageBackend::progress() {
  bool some = drive_carrier();
  const Instant now = clock_.now();
  if (sessions_->turn(now)) beat(now);
  report_losses();
  Instant due = sessions_->next_check();
  if (!links_->busy().empty()) {
    const bool all_driven = drive_links(now);
    some |= !all_driven;
    due = std::min({due, expire(now, all_driven), next_watch()});
    report_losses();
  }
  protocol_->deliver();
  some |= self_runner_.progress();
  if (some) return true;
  if (timer_->armed_at() <= now) timer_->clear();
  timer_->arm(due);
  return !worker_->arm();
}

// ---- Opening

BackendType message_type(Carrier carrier, device::DriverSource devices) {
  BackendType type;
  type.name = carrier.name;
  type.summary = carrier.summary;
  type.kinds = {kHostKinds.begin(), kHostKinds.end()};
  if (carrier.takes_devices) type.kinds.push_back(MemoryKind::device);
  type.params = carrier.params;
  std::ranges::copy(timing_params(), std::back_inserter(type.params));
  if (carrier.probe)
    type.probe = [probe = carrier.probe](const Params&) { return std::vector{probe()}; };
  type.open = [carrier = std::move(carrier), devices = std::move(devices)](
                  const BackendContext& context) -> Result<std::unique_ptr<Backend>> {
    if (carrier.takes_devices && !devices.may_exist())
      return error(Code::unsupported, cat(carrier.name, ": there is no driver of a GPU here"),
                   "install NVIDIA's; host memory needs only ucx or tcp");
    TOWPATH_TRY(const Timing timing, timing_of(carrier.name, context.params));
    Carrier adapted = carrier;
    if (carrier.adapt) TOWPATH_TRY(carrier.adapt(adapted, context.params));
    auto backend = std::make_unique<MessageBackend>(context, std::move(adapted), timing, devices);
    TOWPATH_TRY(backend->open(context));
    return backend;
  };
  return type;
}

}  // namespace towpath::backends::messages
