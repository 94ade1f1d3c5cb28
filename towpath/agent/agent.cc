#include <algorithm>

#include <towpath/agent/agent.h>
#include <towpath/agent/core.h>
#include <towpath/core/format.h>

namespace towpath::agent {

// ---- Agent ----

Result<std::unique_ptr<Agent>> Agent::create(const AgentOptions& options) {
  TOWPATH_TRY(std::shared_ptr<AgentCore> core, AgentCore::create(options));
  return std::unique_ptr<Agent>(new Agent(std::move(core)));
}

Agent::Agent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}
Agent::~Agent() {
  // A forked child lets go of nothing: what its end would inform others of is not true.
  if (is_inherited())
    (void)new std::shared_ptr<AgentCore>(std::move(core_));
  else
    core_->shut_down_or_stay();
}

bool Agent::is_inherited() const noexcept { return core_->context.is_inherited(); }

const std::string& Agent::name() const { return core_->context.self.name; }
const AgentIdentity& Agent::identity() const { return core_->context.self; }

Status Agent::add_backend(std::string_view type, const backend::Params& params) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->add_backend(type, params);
}
std::vector<std::string> Agent::backends() const { return core_->backends.names(); }
bool Agent::has_backend(std::string_view type) const { return core_->backends.find(type).ok(); }

Result<backend::Capabilities> Agent::capabilities(std::string_view type) const {
  TOWPATH_TRY(BackendInstance * instance, core_->backends.find(type));
  return instance->backend->capabilities();
}

Result<std::vector<std::optional<backend::Params>>> Agent::query(
    std::string_view backend, std::span<const RegionDescriptor> descriptors) {
  TOWPATH_TRY(core_->context.check_own());
  TOWPATH_TRY(BackendInstance * instance, core_->backends.find(backend));
  return instance->backend->query(descriptors);  // without the lock: it may wait
}

// ---- memory

Result<memory::Registration> Agent::register_region(memory::SharedRegion region,
                                                    const memory::RegisterOptions& options) {
  TOWPATH_TRY(core_->context.check_own());
  TOWPATH_TRY(auto made, core_->registrations.add(std::span(&region, 1), options));
  return std::move(made.front());
}

Result<std::vector<memory::Registration>> Agent::register_regions(
    std::vector<memory::SharedRegion> regions, const memory::RegisterOptions& options) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->registrations.add(regions, options);
}

Status Agent::release(std::span<memory::Registration> registrations) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->registrations.release(registrations);
}

// ---- metadata and peers

Result<Bytes> Agent::metadata(const MetadataOptions& options) const {
  TOWPATH_TRY(core_->context.check_own());
  return core_->registrations.metadata(options);
}
Result<AgentIdentity> Agent::load_metadata(ConstByteSpan metadata) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->peers.load(metadata);
}
Status Agent::expect_departure(std::string_view name) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->peers.expect_departure(name);
}
Status Agent::forget_peer(std::string_view name) {
  TOWPATH_TRY(core_->context.check_own());
  return core_->peers.forget(name);
}
Result<PeerInfo> Agent::peer(std::string_view name) const {
  TOWPATH_TRY(core_->context.check_own());
  return core_->peers.info(name);
}
std::vector<PeerInfo> Agent::peers() const {
  return is_inherited() ? std::vector<PeerInfo>() : core_->peers.all();
}

Status Agent::check_peer(std::string_view name, const DescriptorList* list) const {
  TOWPATH_TRY(core_->context.check_own());
  TOWPATH_TRY(const PeerPtr peer, core_->peers.find(name));
  TOWPATH_TRY(check_not_lost(*peer));
  if (list == nullptr) return {};
  return peer->is_self ? core_->registrations.check_covers(*list)
                       : core_->peers.check_covers(peer, *list);
}

// ---- transfers

namespace {

Status resolve_local(AgentCore& core, const DescriptorView& list, PreparedSide& side) {
  return core.registrations.resolve(list, side.list);
}

/// The agent's own memory, by its own name, is its peer's too.
Status resolve_remote(AgentCore& core, std::string_view peer, const DescriptorView& list,
                      PreparedSide& side) {
  if (peer != core.context.self.name) return core.peers.resolve(peer, list, side);
  side.peer = core.peers.self();
  return resolve_local(core, list, side);
}

}  // namespace

std::uint64_t PreparedList::size() const noexcept { return side_ ? side_->list.size() : 0; }

Result<PreparedList> Agent::prepare(const DescriptorView& local) {
  TOWPATH_TRY(core_->context.check_own());
  const std::shared_ptr<PreparedSide> side = core_->transfers.new_side();
  TOWPATH_TRY(resolve_local(*core_, local, *side));
  return PreparedList(side);
}

Result<PreparedList> Agent::prepare_remote(std::string_view peer, const DescriptorView& remote) {
  TOWPATH_TRY(core_->context.check_own());
  const std::shared_ptr<PreparedSide> side = core_->transfers.new_side();
  TOWPATH_TRY(resolve_remote(*core_, peer, remote, *side));
  return PreparedList(side);
}

Result<Transfer> Agent::make_transfer(TransferOp op, const PreparedList& local,
                                      const PreparedList& remote, const TransferOptions& options) {
  TOWPATH_TRY(Transfers::Sides sides, core_->transfers.sides_of(local, remote));
  return core_->transfers.make(op, std::move(sides), options);
}

Result<Transfer> Agent::create_transfer(TransferOp op, const DescriptorView& local,
                                        std::string_view peer, const DescriptorView& remote,
                                        const TransferOptions& options) {
  TOWPATH_TRY(core_->context.check_own());
  const std::shared_ptr<PreparedSide> here = core_->transfers.take_side();
  const std::shared_ptr<PreparedSide> there = core_->transfers.take_side();
  TOWPATH_TRY(resolve_local(*core_, local, *here));
  TOWPATH_TRY(resolve_remote(*core_, peer, remote, *there));
  return core_->transfers.make(op, {here, there, here, there}, options);
}

Result<Explanation> Agent::explain(TransferOp op, const PreparedList& local,
                                   const PreparedList& remote, const TransferOptions& options) {
  TOWPATH_TRY(core_->context.check_own());
  TOWPATH_TRY(const Transfers::Sides sides, core_->transfers.sides_of(local, remote));
  return core_->transfers.explain(op, sides, options);
}

// ---- notifications and progress

Status Agent::notify(std::string_view name, ConstByteSpan message) {
  TOWPATH_TRY(core_->context.check_own());
  TOWPATH_TRY(const PeerPtr peer, core_->peers.find(name));
  return core_->engine.notify(*peer, message);
}
std::vector<Notification> Agent::take_notifications() {
  return is_inherited() ? std::vector<Notification>() : core_->engine.take_notifications();
}
std::vector<Notification> Agent::wait_notifications(Duration timeout) {
  return is_inherited() ? std::vector<Notification>() : core_->engine.wait_notifications(timeout);
}

bool Agent::progress() { return !is_inherited() && core_->engine.progress(); }
int Agent::wait_fd() const { return core_->engine.wait_fd(); }
void Agent::wait_for_work(Duration timeout) {
  if (!is_inherited()) core_->engine.wait_for_work(timeout);
}
void Agent::serve(Duration timeout) {
  if (!is_inherited()) core_->engine.serve(timeout);
}
void Agent::wake() {
  if (!is_inherited()) core_->engine.wake();
}

// ---- Transfer ----

Transfer::Transfer(std::shared_ptr<TransferCore> core) : core_(std::move(core)) {}

Transfer& Transfer::operator=(Transfer&& other) noexcept {
  if (this != &other) {
    Transfer old(std::move(core_));
    core_ = std::move(other.core_);
  }
  return *this;
}

Transfer::~Transfer() {
  if (!core_) return;
  if (core_->agent->context.is_inherited()) {
    (void)new std::shared_ptr<TransferCore>(std::move(core_));  // as the agent itself
    return;
  }
  const std::shared_ptr<AgentCore> agent = core_->agent;
  agent->transfers.abandon(std::move(core_));
}

Status Transfer::post(const PostOptions& options) {
  if (!core_) return error(Code::invalid_argument, "an empty transfer handle");
  return core_->agent->transfers.post(*core_, options);
}

TransferState Transfer::state() const noexcept {
  // Sequentially consistent: pairs with the store in BackendInstance::end(), for event loops that
  // announce themselves and then look.
  return core_ ? core_->state.load(std::memory_order_seq_cst) : TransferState::prepared;
}
Outcome Transfer::outcome() const noexcept {
  return core_ ? core_->outcome.load(std::memory_order_acquire) : Outcome::none;
}
Status Transfer::status() const { return ended() ? core_->status : Status(); }
std::vector<DescriptorError> Transfer::errors() const {
  return ended() ? core_->errors : std::vector<DescriptorError>();
}

Outcome Transfer::wait(Duration timeout) {
  const bool is_own = core_ && !core_->agent->context.is_inherited();
  return is_own ? core_->agent->engine.wait(*core_, timeout) : Outcome::none;
}
void Transfer::cancel() {
  if (core_ && !core_->agent->context.is_inherited()) core_->agent->transfers.cancel(*core_);
}

Result<TransferReport> Transfer::report() const {
  if (!core_ || !core_->agent->context.options.capture_telemetry)
    return error(Code::no_telemetry, "this agent records no figures of transfers",
                 "create it with capture_telemetry");
  if (!ended())
    return error(Code::no_telemetry, cat("the transfer is ", name_of(state())), "wait for it");
  const auto microseconds = [](Duration time) { return static_cast<double>(time.count()) / 1e3; };
  const Duration post_time(core_->post_nanoseconds.load(std::memory_order_relaxed));
  return TransferReport{
      .start_us = static_cast<std::uint64_t>(core_->posted_since_epoch.count() / 1000),
      .post_us = microseconds(post_time),
      .transfer_us = microseconds(std::max(post_time, core_->transfer_time)),
      .bytes = core_->moved_bytes,
      .descriptors = core_->segments.descriptors(),
      .segments = core_->segments.segments().size()};
}

Explanation Transfer::explain() const {
  if (!core_) return {.what = "no transfer", .candidates = {}};
  const ProgressEngine::HandleCall counted(core_->agent->engine);
  if (Status open = core_->agent->context.check_open(); !open.ok())
    return {.what = open.to_string(), .candidates = {}};
  return core_->agent->transfers.explain(*core_);
}
std::uint64_t Transfer::bytes() const noexcept { return core_ ? core_->segments.bytes() : 0; }
std::uint64_t Transfer::descriptors() const noexcept {
  return core_ ? core_->segments.descriptors() : 0;
}
std::string Transfer::backend() const { return core_ ? core_->instance->name : ""; }

}  // namespace towpath::agent
