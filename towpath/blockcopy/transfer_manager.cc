#include <algorithm>
#include <atomic>
#include <utility>

#include <towpath/blockcopy/copy_runner.h>
#include <towpath/blockcopy/layout_entry.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {
namespace {

class KeptRegion final : public memory::RegistrationState {
 public:
  KeptRegion(std::string agent_name, memory::SharedRegion region)
      : agent_name_(std::move(agent_name)),
        region_(std::move(region)),
        descriptor_(region_->descriptor()) {}

  const std::string& agent_name() const override { return agent_name_; }
  const RegionDescriptor& descriptor() const override { return descriptor_; }
  std::vector<std::string> backends() const override { return {}; }
  bool is_registered() const override { return registered_.load(std::memory_order_relaxed); }
  Status release() override {
    registered_.store(false, std::memory_order_relaxed);  // a flag alone: nothing is published
    return {};
  }

 private:
  const std::string agent_name_;
  const memory::SharedRegion region_;
  const RegionDescriptor descriptor_;
  std::atomic<bool> registered_{true};
};

Status no_such(LayoutHandle handle) {
  return error(Code::not_found, cat("no layout is known by ", to_string(handle)),
               "register or import it first; a handle ends with its layout");
}

}  // namespace

Result<memory::Registration> DeviceRegistrar::register_region(
    memory::SharedRegion region, const memory::RegisterOptions& options) {
  auto registered = agent_.register_region(region, options);
  const bool is_kept = registered.code() == Code::unsupported && options.backends.empty() &&
                       region->kind() == MemoryKind::device;
  if (!is_kept) return registered;
  return memory::Registration(std::make_shared<KeptRegion>(agent_.name(), std::move(region)));
}

std::string to_string(const LayoutHandle& handle) {
  return cat("layout ", handle.id, " of ", hex(handle.owner));
}

const layout::Layout& TransferManager::Entry::geometry() const {
  return std::visit([](const auto& l) -> const layout::Layout& { return l.layout(); }, layout);
}

const layout::PhysicalLayout* TransferManager::Entry::local() const {
  return std::get_if<layout::PhysicalLayout>(&layout);
}

Result<std::unique_ptr<TransferManager>> TransferManager::create(TransferManagerOptions options) {
  TOWPATH_TRY(auto copies, CopyRunner::create(std::move(options)));
  return std::unique_ptr<TransferManager>(new TransferManager(std::move(copies)));
}

TransferManager::TransferManager(std::unique_ptr<CopyRunner> copies)
    : agent_(*copies->options().agent), registrar_(agent_), copies_(std::move(copies)) {}

TransferManager::~TransferManager() = default;

Result<LayoutHandle> TransferManager::register_layout(layout::PhysicalLayout layout,
                                                      LayoutOptions options) {
  const AgentIdentity& self = agent_.identity();
  const bool is_reported = options.tier.size() <= kMaxTierName &&
                           options.first_layer <= UINT32_MAX && options.first_head <= UINT32_MAX;
  if (layout.metadata().agent_name != self.name || !is_reported)
    return error(Code::invalid_argument,
                 cat("a layout of agent '", printable(layout.metadata().agent_name), "', tier '",
                     printable(options.tier), "', for the manager of '", printable(self.name), "'"),
                 cat("build it with the manager's agent, and name tiers with at most ",
                     kMaxTierName, " bytes"));
  const LayoutHandle handle{self.incarnation, next_id_++};
  layouts_.emplace(handle, std::make_unique<Entry>(Entry{std::move(layout), std::move(options)}));
  return handle;
}

Status TransferManager::unregister_layout(LayoutHandle handle) {
  TOWPATH_TRY(const Entry* entry, find(handle));
  if (entry->is_remote())
    return error(Code::invalid_argument, cat(to_string(handle), " is a peer's"),
                 "unload() the peer");
  layouts_.erase(handle);
  return {};
}

Result<const TransferManager::Entry*> TransferManager::find(LayoutHandle handle) const {
  const auto found = layouts_.find(handle);
  if (found == layouts_.end()) return no_such(handle);
  return found->second.get();
}

Result<LayoutInfo> TransferManager::info(LayoutHandle handle) const {
  TOWPATH_TRY(const Entry* entry, find(handle));
  AgentIdentity agent = entry->geometry().agent();
  agent.incarnation = handle.owner;
  return LayoutInfo{handle, entry->options, std::move(agent), entry->is_remote(),
                    entry->geometry().location()};
}

Result<layout::PhysicalLayout> TransferManager::local_layout(LayoutHandle handle) const {
  TOWPATH_TRY(const Entry* entry, find(handle));
  if (const layout::PhysicalLayout* local = entry->local()) return *local;
  return error(Code::denied,
               cat(to_string(handle), " is memory of ", to_string(entry->geometry().agent()),
                   ": its addresses mean nothing here"),
               "copy its blocks to a layout of this agent");
}

bool TransferManager::progress() { return copies_->progress(); }
void TransferManager::wait_for_work(Duration timeout) { copies_->wait_for_work(timeout); }
TransferFigures TransferManager::figures() const { return copies_->figures(); }
const Clock& TransferManager::clock() const { return *copies_->options().clock; }

Result<TransferJob> TransferManager::copy(CopyRequest request) {
  TOWPATH_TRY(const Entry* from, find(request.source));
  TOWPATH_TRY(const Entry* to, find(request.target));
  TOWPATH_TRY(auto job,
              copies_->copy({from->geometry(), from->options, from->local()},
                            {to->geometry(), to->options, to->local()}, std::move(request)));
  return TransferJob(*this, std::move(job));
}

TransferJob& TransferJob::operator=(TransferJob&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  manager_ = other.manager_;
  job_ = std::move(other.job_);
  return *this;
}

TransferState TransferJob::state() const { return job_ ? job_->state() : TransferState::ended; }
bool TransferJob::ended() const { return !job_ || job_->has_ended(); }
Outcome TransferJob::outcome() const { return job_ ? job_->outcome() : Outcome::failed; }
Route TransferJob::route() const { return job_ ? job_->route() : Route(); }
std::uint64_t TransferJob::bytes_in_place() const { return job_ ? job_->bytes_in_place() : 0; }
std::uint64_t TransferJob::chunks() const { return job_ ? job_->chunks() : 0; }

bool TransferJob::is_layer_done(std::uint64_t layer) const {
  return job_ && job_->is_layer_done(layer);
}

Status TransferJob::status() const {
  if (job_) return job_->status();
  return error(Code::not_ready, "a handle without a copy",
               "ask the handle that TransferManager::copy() returned");
}

std::vector<layout::BlockRange> TransferJob::not_in_place() const {
  return job_ ? job_->not_in_place() : std::vector<layout::BlockRange>();
}

Outcome TransferJob::wait(Duration timeout) {
  if (ended()) return outcome();  // there may be no manager any more
  const Clock& clock = manager_->clock();
  const Instant end = clock.now() + timeout;
  while (!job_->has_ended() && clock.now() < end)
    if (!manager_->progress() && !job_->has_ended()) manager_->wait_for_work(end - clock.now());
  return job_->has_ended() ? job_->outcome() : Outcome::none;
}

bool TransferJob::wait_for_layer(std::uint64_t layer, Duration timeout) {
  if (ended()) return is_layer_done(layer);
  const Clock& clock = manager_->clock();
  const Instant end = clock.now() + timeout;
  while (!job_->is_layer_done(layer) && !job_->has_ended() && clock.now() < end)
    if (!manager_->progress()) manager_->wait_for_work(end - clock.now());
  return job_->is_layer_done(layer);
}

void TransferJob::cancel() {
  if (job_ != nullptr)
    job_->stop(Outcome::cancelled, error(Code::cancelled, "the copy was cancelled", "copy again"));
}

}  // namespace towpath::blockcopy
