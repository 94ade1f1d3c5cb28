#include <algorithm>
#include <atomic>
#include <utility>

#include <towpath/blockcopy/layout_package.h>
#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>
#include <towpath/layout/plan.h>

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

/// How long to sleep where an end is not told by the agent's wait_fd().
constexpr Duration kPollEvery = std::chrono::microseconds(100);
constexpr Duration kSleepAtMost = std::chrono::milliseconds(50);

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

Result<std::unique_ptr<TransferManager>> TransferManager::create(TransferManagerOptions options) {
  if (options.agent == nullptr || options.clock == nullptr || options.credits == 0 ||
      options.chunk_bytes == 0)
    return error(Code::invalid_argument, "a transfer manager needs an agent, its clock and credits",
                 "fill in TransferManagerOptions");
  TOWPATH_TRY(BouncePool pool,
              BouncePool::create(options.bounce, *options.agent,
                                 options.devices.empty() ? nullptr : options.devices.front()));
  return std::unique_ptr<TransferManager>(new TransferManager(std::move(options), std::move(pool)));
}

TransferManager::TransferManager(TransferManagerOptions options, BouncePool pool)
    : options_(std::move(options)),
      registrar_(*options_.agent),
      pool_(std::move(pool)),
      streams_(options_.devices),
      times_(options_.short_piece_bytes, options_.path_trials) {}

TransferManager::~TransferManager() {
  for (const auto& job : jobs_)
    job->stop(Outcome::cancelled,
              error(Code::cancelled, "the transfer manager ended", "end copies before it"));
  while (!jobs_.empty())
    if (!progress()) wait_for_work(kSleepAtMost);
}

Result<LayoutHandle> TransferManager::register_layout(layout::PhysicalLayout layout,
                                                      LayoutOptions options) {
  const AgentIdentity& self = options_.agent->identity();
  const bool is_reported = options.tier.size() <= kMaxTierName &&
                           options.first_layer <= UINT32_MAX && options.first_head <= UINT32_MAX;
  if (layout.metadata().agent_name != self.name || !is_reported)
    return error(Code::invalid_argument,
                 cat("a layout of agent '", printable(layout.metadata().agent_name), "', tier '",
                     printable(options.tier), "', for the manager of '", printable(self.name), "'"),
                 cat("build it with the manager's agent, and name tiers with at most ",
                     kMaxTierName, " bytes"));
  const LayoutHandle handle{self.incarnation, next_id_++};
  layouts_.emplace(handle, Entry{std::move(layout), std::move(options)});
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
  return &found->second;
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
  if (const auto* local = std::get_if<layout::PhysicalLayout>(&entry->layout)) return *local;
  return error(Code::denied,
               cat(to_string(handle), " is memory of ", to_string(entry->geometry().agent()),
                   ": its addresses mean nothing here"),
               "copy its blocks to a layout of this agent");
}

Result<CopySide> TransferManager::side_of(const Entry& entry,
                                          const std::optional<layout::BlockFormat>& format) const {
  const layout::Layout& geometry = entry.geometry();
  TOWPATH_TRY(const layout::TensorView view,
              geometry.view_as(format.value_or(geometry.config().format)));
  CopySide side{.view = view.placed_at(layout::Axis::layer, entry.options.first_layer)
                            .placed_at(layout::Axis::head, entry.options.first_head),
                .location = geometry.location(),
                .agent = geometry.agent().name,
                .end = end_of(geometry.location().kind, entry.is_remote()),
                .regions = {geometry.regions().begin(), geometry.regions().end()},
                .bytes = {},
                .keep = {}};
  if (const auto* local = std::get_if<layout::PhysicalLayout>(&entry.layout)) {
    side.keep.assign(local->regions().begin(), local->regions().end());
    if (side.end == RouteEnd::host)
      for (const auto& region : local->regions()) side.bytes.push_back(region->bytes());
  }
  return side;
}

bool TransferManager::progress() {
  bool moved = options_.agent->progress();
  const Instant now = options_.clock->now();
  under_way_ = 0;
  for (const auto& job : jobs_) {
    moved = job->poll(tools(), pool_, now) || moved;
    under_way_ += job->under_way();
  }
  for (const auto& job : jobs_) note_time(*job);
  moved = start_chunks() || moved;
  std::erase_if(jobs_, [](const auto& job) { return job->has_ended(); });
  return moved;
}

/// What was cancelled or had no more time tells nothing of its way.
void TransferManager::note_time(const CopyJob& job) {
  if (!job.trial() || !job.took()) return;
  if (job.outcome() == Outcome::done) times_.note(*job.trial(), job.took());
  if (job.outcome() == Outcome::failed) times_.note(*job.trial(), std::nullopt);
}

/// Jobs start chunks in turn, so that a large copy does not hold up a small one.
bool TransferManager::start_chunks() {
  const Instant now = options_.clock->now();
  bool started = false;
  std::size_t idle = 0;
  for (std::size_t budget = options_.credits;
       budget > 0 && idle < jobs_.size() && under_way_ < options_.credits;) {
    CopyJob& job = *jobs_[next_job_++ % jobs_.size()];
    const auto slot =
        job.is_waiting() && job.needs_slot() ? pool_.take() : std::optional<std::uint64_t>();
    if (!job.is_waiting() || (job.needs_slot() && !slot)) {
      ++idle;
      continue;
    }
    const std::size_t before = job.under_way();
    job.start(tools(), pool_, slot, now);
    under_way_ += job.under_way() - before;
    most_under_way_ = std::max(most_under_way_, under_way_);
    started = true;
    idle = 0;
    --budget;
  }
  return started;
}

void TransferManager::wait_for_work(Duration timeout) {
  const bool polls =
      std::ranges::any_of(jobs_, [](const auto& job) { return job->needs_polling(); });
  options_.agent->wait_for_work(std::min(timeout, polls ? kPollEvery : kSleepAtMost));
}

TransferFigures TransferManager::figures() const {
  return {.jobs = jobs_.size(),
          .chunks_under_way = under_way_,
          .most_chunks_under_way = most_under_way_,
          .bounce_slots_in_use = pool_.in_use(),
          .most_bounce_slots_in_use = pool_.peak()};
}

TransferJob& TransferJob::operator=(TransferJob&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  manager_ = other.manager_;
  job_ = std::move(other.job_);
  return *this;
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
