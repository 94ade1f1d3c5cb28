#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/memory/testing/recording_registrar.h>

namespace towpath::memory::testing {

void EventLog::add(std::string line) {
  const run::MutexLock lock(mutex_);
  events_.push_back(std::move(line));
}

std::vector<std::string> EventLog::events() const {
  const run::MutexLock lock(mutex_);
  return events_;
}

struct RecordingRegistrar::Shared {
  explicit Shared(EventLog& events) : log(events) {}

  EventLog& log;
  run::Mutex mutex;
  Status register_failure TOWPATH_GUARDED_BY(mutex);
  std::size_t register_skip TOWPATH_GUARDED_BY(mutex) = 0;
  Status release_failure TOWPATH_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<Record>> records TOWPATH_GUARDED_BY(mutex);
};

class RecordingRegistrar::Record final : public RegistrationState {
 public:
  Record(std::shared_ptr<Shared> shared, SharedRegion region, const Options& options,
         std::vector<std::string> backends)
      : shared_(std::move(shared)),
        region_(std::move(region)),
        descriptor_(region_->descriptor()),
        agent_name_(options.name),
        backends_(std::move(backends)) {
    if (!options.keeps_regions) region_.reset();
  }

  const std::string& agent_name() const override { return agent_name_; }
  const RegionDescriptor& descriptor() const override { return descriptor_; }
  std::vector<std::string> backends() const override { return backends_; }
  bool is_registered() const override {
    const run::MutexLock lock(shared_->mutex);
    return registered_;
  }
  Status release() override {
    SharedRegion last;  // dies after the lock
    const run::MutexLock lock(shared_->mutex);
    if (!registered_) return {};
    if (!shared_->release_failure.ok()) return std::exchange(shared_->release_failure, {});
    touch();
    shared_->log.add(cat("release ", agent_name_));
    registered_ = false;
    last = std::move(region_);
    return {};
  }

 private:
  /// Freed bytes are caught here by AddressSanitizer, or by a fault.
  void touch() const {
    if (!is_host_addressable(descriptor_.kind)) return;
    [[maybe_unused]] const volatile std::byte first =
        *reinterpret_cast<const volatile std::byte*>(descriptor_.address);
  }

  const std::shared_ptr<Shared> shared_;
  SharedRegion region_ TOWPATH_GUARDED_BY(shared_->mutex);
  bool registered_ TOWPATH_GUARDED_BY(shared_->mutex) = true;
  const RegionDescriptor descriptor_;
  const std::string agent_name_;
  const std::vector<std::string> backends_;
};

RecordingRegistrar::RecordingRegistrar(EventLog& log, Options options)
    : options_(std::move(options)), shared_(std::make_shared<Shared>(log)) {}

RecordingRegistrar::~RecordingRegistrar() {
  std::vector<std::weak_ptr<Record>> records;
  {
    const run::MutexLock lock(shared_->mutex);
    records = std::move(shared_->records);
    shared_->release_failure = {};
  }
  for (const auto& weak : records)
    if (const auto record = weak.lock()) (void)record->release();
  shared_->log.add(cat("destroy ", options_.name));
}

Status RecordingRegistrar::check(const SharedRegion& region, const RegisterOptions& options) const {
  if (region == nullptr || region->size() == 0)
    return error(Code::invalid_argument, "cannot register an empty region", "register some bytes");
  for (const std::string& wanted : options.backends)
    if (std::ranges::find(options_.backends, wanted) == options_.backends.end())
      return error(Code::not_found, cat("no backend '", wanted, "'"), "create it first");
  if (std::ranges::find(options_.kinds, region->kind()) == options_.kinds.end())
    return error(Code::unsupported, cat("no backend takes ", name_of(region->kind())),
                 "create one that does");
  return {};
}

Result<Registration> RecordingRegistrar::register_region(SharedRegion region,
                                                         const RegisterOptions& options) {
  TOWPATH_TRY(check(region, options));
  const run::MutexLock lock(shared_->mutex);
  if (!shared_->register_failure.ok() && shared_->register_skip-- == 0)
    return std::exchange(shared_->register_failure, {});
  auto record =
      std::make_shared<Record>(shared_, std::move(region), options_,
                               options.backends.empty() ? options_.backends : options.backends);
  shared_->records.push_back(record);
  shared_->log.add(cat("register ", options_.name));
  return Registration(std::move(record));
}

void RecordingRegistrar::fail_next_register(Status failure, std::size_t skip) {
  const run::MutexLock lock(shared_->mutex);
  shared_->register_failure = std::move(failure);
  shared_->register_skip = skip;
}

void RecordingRegistrar::fail_next_release(Status failure) {
  const run::MutexLock lock(shared_->mutex);
  shared_->release_failure = std::move(failure);
}

std::size_t RecordingRegistrar::registered() const {
  std::vector<std::weak_ptr<Record>> records;
  {
    const run::MutexLock lock(shared_->mutex);
    records = shared_->records;
  }
  return static_cast<std::size_t>(std::ranges::count_if(records, [](const auto& weak) {
    const auto record = weak.lock();
    return record != nullptr && record->is_registered();
  }));
}

}  // namespace towpath::memory::testing
