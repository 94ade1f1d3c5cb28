#include <atomic>
#include <utility>

#include <towpath/blockcopy/device_registrar.h>

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

}  // namespace

Result<memory::Registration> DeviceRegistrar::register_region(
    memory::SharedRegion region, const memory::RegisterOptions& options) {
  auto registered = agent_.register_region(region, options);
  const bool is_kept = registered.code() == Code::unsupported && options.backends.empty() &&
                       region->kind() == MemoryKind::device;
  if (!is_kept) return registered;
  return memory::Registration(std::make_shared<KeptRegion>(agent_.name(), std::move(region)));
}

}  // namespace towpath::blockcopy
