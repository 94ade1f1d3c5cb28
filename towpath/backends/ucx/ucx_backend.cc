#include <algorithm>
#include <utility>

#include <towpath/backends/ucx/core.h>
#include <towpath/backends/ucx/options.h>
#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {

using namespace backend;

namespace {

/// Rounds of UCX's progress in one call of ours, and in the last one of all.
constexpr int kRoundsPerCall = 8;
constexpr int kFarewellRounds = 200;

Capabilities ucx_capabilities(const Timing& timing) {
  Capabilities can;
  can.routes = host_routes();
  for (const MemoryKind local : kHostKinds)
    can.routes.push_back({.local = local, .remote = MemoryKind::device, .to_peer = true});
  can.notifications = Notifications::reliable;
  can.max_notification_bytes = kMaxNoteBytes;
  can.quiet = Quiet::bounded;
  can.quiet_bound = timing.dead_after({}) - Instant{};
  can.cost = {.latency = std::chrono::microseconds(30),
              .per_segment = Duration(40),
              .bytes_per_second = 2e9};
  return can;
}

}  // namespace

UcxConnection::~UcxConnection() { backend.drop_connection(*this); }

UcxBackend::UcxBackend(const BackendContext& context, const Timing& timing,
                       device::DriverSource devices)
    : self_(context.self),
      events_(*context.events),
      clock_(*context.clock),
      timing_(timing),
      capabilities_(ucx_capabilities(timing)),
      windows_(std::move(devices)) {
  log_ = context.log_as("ucx");
}

Status UcxBackend::open(const WorkerMaker& make_worker, const net::UcxOptions& options) {
  TOWPATH_TRY(worker_, make_worker(options, *this));
  const ConstByteSpan address = worker_->address();
  if (address.size() > kMaxAddressBytes) {
    return error(Code::unsupported,
                 cat("the address of this UCX worker has ", address.size(), " bytes; a card takes ",
                     kMaxAddressBytes),
                 "choose fewer devices with the parameter devices");
  }
  info_ = {.instance = sys::random_u64(), .address = {address.begin(), address.end()}};
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  poller_ = std::make_unique<run::Poller>(std::move(poller));
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  timer_ = std::make_unique<run::TimerFd>(std::move(timer));
  if (worker_->fd() >= 0) TOWPATH_TRY(poller_->add(worker_->fd(), 0));
  TOWPATH_TRY(poller_->add(timer_->fd(), 1));
  courier_ = std::make_unique<Courier>(
      events_, clock_, timing_, worker_->buffers(),
      Courier::Outward{.send = [this](Link& link, auto buffer) { send(link, std::move(buffer)); },
                       .link_of = [](Connection& way) -> Link& {
                         return *static_cast<UcxConnection&>(way).link;
                       }});
  next_beat_ = last_progress_ = clock_.now();
  return {};
}

// A transfer's handle keeps its backend, and may outlive the agent and what it was given: no clock,
// no log and no events from here on.
UcxBackend::~UcxBackend() {
  if (!worker_) return;
  closing_ = true;
  for (auto& [session, link] : links_) {
    if (link->lost || !link->up || !link->endpoint) continue;
    auto buffer = worker_->buffers().take();
    buffer->size =
        FrameWriter(buffer->room(), link->header(FrameKind::bye, last_progress_)).finish();
    (void)link->endpoint->send(std::move(buffer));
  }
  const auto unsent = [](const auto& entry) {
    return entry.second->endpoint && entry.second->up && entry.second->endpoint->unsent() > 0;
  };
  // Peers learn it from the broken connection too, only less precisely: no need to wait long.
  for (int i = 0; i < kFarewellRounds && std::ranges::any_of(links_, unsent); ++i)
    worker_->progress();
  links_.clear();
}

// ---- Memory

Result<std::unique_ptr<Memory>> UcxBackend::register_memory(const RegionDescriptor& region) {
  TOWPATH_TRY(check_region("ucx", capabilities_, region));
  DeviceWindow* window = nullptr;
  if (region.kind == MemoryKind::device) {
    TOWPATH_TRY(window, windows_.of(static_cast<unsigned>(region.device_id)));
  }
  return std::make_unique<OwnMemory>(region, owner_, window);
}

Result<std::unique_ptr<Memory>> UcxBackend::import_memory(Connection& connection,
                                                          const RegionDescriptor& region,
                                                          ConstByteSpan bytes) {
  TOWPATH_TRY(const MemoryKey key, decode_key(bytes));
  const bool is_ours = static_cast<UcxConnection&>(connection).link == nullptr;
  const bool moves = region.kind == MemoryKind::device && !is_ours;
  if (!is_host_addressable(region.kind) && !moves)
    return error(Code::unsupported, cat("ucx cannot move ", name_of(region.kind), " memory",
                                        is_ours ? " to and from oneself" : ""));
  if (region.address < key.address || region.length == 0 ||
      !range_fits(region.address - key.address, region.length, key.length)) {
    return error(Code::corrupt, cat(to_string(region), " is not inside of what was registered: ",
                                    hex(key.address), " +", key.length));
  }
  if (is_ours) {
    const RegionDescriptor* own = owner_.find(key.token);
    if (own == nullptr || !own->covers({region.address, region.length, region.device_id}))
      return error(Code::corrupt, cat("the key is not that of ", to_string(region)));
  }
  return std::make_unique<ImportedMemory>(region, key.token);
}

std::string UcxBackend::describe_path(const Memory& local, const Memory& remote) const {
  (void)local;
  if (dynamic_cast<const OwnMemory*>(&remote) != nullptr ||
      owner_.find(static_cast<const UcxMemory&>(remote).token) != nullptr)
    return "loads and stores within the process";
  const bool device = static_cast<const UcxMemory&>(remote).region.kind == MemoryKind::device;
  return cat("messages over UCX; the owner of the memory moves the bytes",
             device ? ", by copies of its device that it waits for" : "");
}

// ---- Operations

void UcxBackend::post(UcxOperation& operation) {
  if (static_cast<UcxConnection&>(*operation.request.connection).link != nullptr)
    return courier_->post(operation);
  if (operation.to_self == nullptr) {
    operation.to_self = self_runner_.make_operation();
    operation.to_self->owner = &operation;
  }
  operation.to_self->post(operation.request);
}

void UcxBackend::cancel(UcxOperation& operation) {
  if (!operation.active) return;
  if (static_cast<UcxConnection&>(*operation.request.connection).link != nullptr)
    return courier_->cancel(operation);
  operation.to_self->cancel();
}

Status UcxBackend::move(SliceTask& task) {
  std::uint64_t budget = kSliceBytes;
  while (budget > 0 && !task.at().done()) {
    const auto& remote = static_cast<const UcxMemory&>(*task.at().segment().remote);
    if (owner_.find(remote.token) != nullptr) {
      task.copy(0, budget);
      continue;
    }
    task.fail_segment(error(Code::not_found, cat(to_string(remote.region), " was taken back")));
    budget -= std::min(budget, kPieceCost);
  }
  return {};
}

// ---- The loop

void UcxBackend::beat(Link& link, Instant now) {
  if (now - link.heard_at >= timing_.timeout) {
    const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - link.heard_at);
    return break_off(
        link,
        error(Code::peer_lost, cat(to_string(link.peer), " was silent for ", silent.count(), " ms"),
              "look whether it runs, and at the network between"));
  }
  const bool idle = link.connections.empty() && !link.peer_uses;
  if (idle && link.up && now - link.heard_at >= timing_.heartbeat * 2) return;  // it will fade
  if (link.up && now - link.sent_at >= timing_.heartbeat && link.endpoint->unsent() == 0)
    send_plain(link, FrameKind::alive);
}

void UcxBackend::beat(Instant now) {
  if (now < next_beat_) return;
  next_beat_ = now + timing_.heartbeat;
  // We were stopped ourselves: what peers said meanwhile is still on its way to us.
  const bool was_away = now - last_progress_ >= timing_.timeout / 2;
  for (auto& [session, link] : links_) {
    if (link->lost) continue;
    if (was_away) link->heard_at = now;
    beat(*link, now);
  }
}

Instant UcxBackend::expire(Instant now) {
  Instant next = Instant::never();
  for (auto& [session, link] : links_) next = std::min(next, courier_->expire(*link, now));
  return next;
}

bool UcxBackend::progress() {
  bool some = false;
  for (int i = 0; i < kRoundsPerCall && worker_->progress(); ++i) some = true;
  const Instant now = clock_.now();
  beat(now);
  last_progress_ = now;
  tell_losses();
  for (auto& [session, link] : links_) {
    courier_->pump(*link);
    offer_notes(*link);
  }
  const Instant due = std::min(next_beat_, expire(now));
  tell_losses();
  courier_->deliver();
  some |= self_runner_.progress();
  if (some) return true;
  if (timer_->armed_at() <= now) timer_->clear();
  timer_->arm(due);
  return !worker_->arm();
}

// ---- Opening

namespace {

Result<std::unique_ptr<Backend>> open_ucx(const BackendContext& context,
                                          const WorkerMaker& make_worker,
                                          const device::DriverSource& devices) {
  TOWPATH_TRY(const Timing timing, timing_of(context.params));
  TOWPATH_TRY(const net::UcxOptions options, options_of(context.params));
  auto backend = std::make_unique<UcxBackend>(context, timing, devices);
  TOWPATH_TRY(backend->open(make_worker, options));
  return backend;
}

}  // namespace

BackendType ucx_type(device::DriverSource devices) {
  return ucx_type(net::open_ucx_worker, std::move(devices));
}

BackendType ucx_type(WorkerMaker make_worker, device::DriverSource devices) {
  BackendType type;
  type.name = "ucx";
  type.summary = "agents of other processes and machines, over UCX (RDMA, TCP, shared memory)";
  type.kinds = {kHostKinds.begin(), kHostKinds.end()};
  type.params = known_params();
  type.probe = [](const Params&) { return std::vector{net::probe_ucx()}; };
  type.open = [maker = std::move(make_worker), devices = std::move(devices)](
                  const BackendContext& context) { return open_ucx(context, maker, devices); };
  return type;
}

}  // namespace towpath::backends::ucx
