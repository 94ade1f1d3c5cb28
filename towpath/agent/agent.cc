#include <algorithm>

#include <towpath/agent/agent.h>
#include <towpath/agent/core.h>

namespace towpath::agent {

// ---- Agent ----

Result<std::unique_ptr<Agent>> Agent::create(const AgentOptions& options) {
  TOWPATH_TRY(std::shared_ptr<AgentCore> core, AgentCore::create(options));
  return std::unique_ptr<Agent>(new Agent(std::move(core)));
}

Agent::Agent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}
Agent::~Agent() { core_->shut_down(); }

const std::string& Agent::name() const { return core_->identity().name; }
const AgentIdentity& Agent::identity() const { return core_->identity(); }

Status Agent::add_backend(std::string_view type, const backend::Params& params) {
  return core_->add_backend(type, params);
}
std::vector<std::string> Agent::backends() const { return core_->backends(); }
bool Agent::has_backend(std::string_view type) const { return core_->slot_named(type).ok(); }

Result<backend::Capabilities> Agent::capabilities(std::string_view type) const {
  TOWPATH_TRY(Slot * slot, core_->slot_named(type));
  return slot->backend->capabilities();
}

Result<memory::Registration> Agent::register_region(memory::SharedRegion region,
                                                    const memory::RegisterOptions& options) {
  TOWPATH_TRY(auto made, core_->register_regions(std::span(&region, 1), options));
  return std::move(made.front());
}

Result<std::vector<memory::Registration>> Agent::register_regions(
    std::vector<memory::SharedRegion> regions, const memory::RegisterOptions& options) {
  return core_->register_regions(regions, options);
}

Status Agent::release(std::span<memory::Registration> registrations) {
  return core_->release(registrations);
}

Result<std::vector<std::optional<backend::Params>>> Agent::query(
    std::string_view backend, std::span<const RegionDescriptor> descriptors) {
  return core_->query(backend, descriptors);
}

Result<Bytes> Agent::card(const CardOptions& options) const { return core_->card(options); }
Result<AgentIdentity> Agent::load_card(ConstByteSpan card) { return core_->load_card(card); }
Status Agent::excuse_peer(std::string_view name) { return core_->excuse_peer(name); }
Status Agent::forget_peer(std::string_view name) { return core_->forget_peer(name); }
Result<PeerInfo> Agent::peer(std::string_view name) const { return core_->peer(name); }
std::vector<PeerInfo> Agent::peers() const { return core_->peers(); }
Status Agent::check_peer(std::string_view name, const DescriptorList* list) const {
  return core_->check_peer(name, list);
}

Result<PreparedList> Agent::prepare(const DescriptorList& local) {
  return core_->prepare(local, std::nullopt);
}
Result<PreparedList> Agent::prepare_remote(std::string_view peer, const DescriptorList& remote) {
  return core_->prepare(remote, peer);
}
Result<PreparedList> Agent::prepare(const PlainList& local) {
  return core_->prepare(local, std::nullopt);
}
Result<PreparedList> Agent::prepare_remote(std::string_view peer, const PlainList& remote) {
  return core_->prepare(remote, peer);
}
Result<Transfer> Agent::make_transfer(TransferOp op, const PreparedList& local,
                                      const PreparedList& remote, const TransferOptions& options) {
  return core_->make_transfer(op, local, remote, options);
}
Result<Transfer> Agent::create_transfer(TransferOp op, const DescriptorList& local,
                                        std::string_view peer, const DescriptorList& remote,
                                        const TransferOptions& options) {
  TOWPATH_TRY(const PreparedList here, prepare(local));
  TOWPATH_TRY(const PreparedList there, prepare_remote(peer, remote));
  return make_transfer(op, here, there, options);
}
Result<Transfer> Agent::create_transfer(TransferOp op, const PlainList& local,
                                        std::string_view peer, const PlainList& remote,
                                        const TransferOptions& options) {
  return core_->create_transfer(op, local, peer, remote, options);
}
Result<Explanation> Agent::explain(TransferOp op, const PreparedList& local,
                                   const PreparedList& remote, const TransferOptions& options) {
  return core_->explain(op, local, remote, options);
}

Status Agent::notify(std::string_view peer, ConstByteSpan message) {
  return core_->notify(peer, message);
}
std::vector<Notification> Agent::take_notifications() { return core_->take_notifications(); }
std::vector<Notification> Agent::wait_notifications(Duration timeout) {
  return core_->wait_notifications(timeout);
}

bool Agent::progress() { return core_->progress(); }
int Agent::wait_fd() const { return core_->wait_fd(); }
void Agent::wait_for_work(Duration timeout) { core_->wait_for_work(timeout); }
void Agent::serve(Duration timeout) { core_->serve(timeout); }
void Agent::wake() { core_->wake(); }

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
  const std::shared_ptr<AgentCore> agent = core_->agent;
  agent->abandon(std::move(core_));
}

Status Transfer::post(const PostOptions& options) {
  if (!core_) return error(Code::invalid_argument, "an empty transfer handle");
  return core_->agent->post(*core_, options);
}

TransferState Transfer::state() const noexcept {
  return core_ ? core_->state.load(std::memory_order_acquire) : TransferState::prepared;
}
Outcome Transfer::outcome() const noexcept {
  return core_ ? core_->outcome.load(std::memory_order_acquire) : Outcome::none;
}
Status Transfer::status() const { return ended() ? core_->status : Status(); }
std::vector<DescriptorError> Transfer::errors() const {
  return ended() ? core_->errors : std::vector<DescriptorError>();
}

Outcome Transfer::wait(Duration timeout) {
  return core_ ? core_->agent->wait(*core_, timeout) : Outcome::none;
}
void Transfer::cancel() {
  if (core_) core_->agent->cancel(*core_);
}

Result<TransferReport> Transfer::report() const {
  if (!core_ || !core_->agent->captures_telemetry())
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
  return core_ ? core_->agent->explain(*core_)
               : Explanation{.what = "no transfer", .candidates = {}};
}
std::uint64_t Transfer::bytes() const noexcept { return core_ ? core_->segments.bytes() : 0; }
std::uint64_t Transfer::descriptors() const noexcept {
  return core_ ? core_->segments.descriptors() : 0;
}
std::string Transfer::backend() const { return core_ ? core_->slot->name : ""; }

}  // namespace towpath::agent
