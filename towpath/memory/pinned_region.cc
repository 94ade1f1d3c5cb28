#include <towpath/core/format.h>
#include <towpath/memory/pinned_region.h>

namespace towpath::memory {
namespace {

Status check_device(const std::shared_ptr<device::Device>& device) {
  if (device != nullptr) return {};
  return error(Code::invalid_argument, "cannot pin memory for no device",
               "open a device of a driver (device/driver.h)");
}

Status because(const std::string& what, const Status& cause) {
  return error(cause.code(), what, std::string(cause.hint())).because(cause);
}

}  // namespace

Result<std::shared_ptr<PinnedRegion>> PinnedRegion::allocate(std::shared_ptr<device::Device> device,
                                                             std::uint64_t size_bytes) {
  TOWPATH_TRY(check_device(device));
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of pinned memory",
                 "ask for at least 1 byte");
  auto memory = device->allocate_pinned(size_bytes);
  if (!memory.ok())
    return because(cat("cannot allocate ", size_bytes, " bytes of pinned memory"), memory.status());
  return std::make_shared<PinnedRegion>(Private{}, nullptr, *std::move(memory), telemetry::Log());
}

Result<std::shared_ptr<PinnedRegion>> PinnedRegion::pin(SharedRegion base,
                                                        std::shared_ptr<device::Device> device,
                                                        const telemetry::Log& log) {
  TOWPATH_TRY(check_device(device));
  if (base == nullptr)
    return error(Code::invalid_argument, "cannot pin no memory", "pass the region to pin");
  const ByteSpan bytes = base->bytes();
  if (bytes.empty())
    return error(Code::unsupported, cat("cannot pin ", to_string(base->descriptor())),
                 "pin memory of the host");
  auto memory = device->register_host(bytes);
  if (!memory.ok())
    return because(cat("cannot pin ", to_string(base->descriptor())), memory.status());
  return std::make_shared<PinnedRegion>(Private{}, std::move(base), *std::move(memory), log);
}

PinnedRegion::~PinnedRegion() {
  const Status status = memory_.release();
  if (status.ok()) return;
  log_.error("pinned memory cannot be given back, and is kept while the process lives",
             {{"memory", to_string(descriptor())}, {"cause", status.to_string()}});
  (void)new SharedRegion(base_);  // never freed
}

RegionDescriptor PinnedRegion::descriptor() const {
  return {.kind = MemoryKind::pinned,
          .address = memory_.address(),
          .length = memory_.size(),
          .may_fault = base_ != nullptr && base_->descriptor().may_fault};
}

}  // namespace towpath::memory
