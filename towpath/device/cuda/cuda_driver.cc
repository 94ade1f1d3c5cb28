#include <array>

#include <towpath/device/cuda/cuda_device.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/cuda/cuda_library.h>
#include <towpath/sys/numa.h>

namespace towpath::device {

using cuda::CudaLibrary;
using cuda::CuDevice;
using cuda::DeviceAttribute;

namespace {

/// `unknown` for attributes that an older driver does not know.
int attribute_of(const CudaLibrary& cuda, CuDevice device, DeviceAttribute attribute, int unknown) {
  int value = unknown;
  return cuda.call().device_attribute(&value, attribute, device) == cuda::kSuccess ? value
                                                                                   : unknown;
}

std::optional<unsigned> node_of(const CudaLibrary& cuda, CuDevice device, const DeviceInfo& info,
                                const std::string& sys) {
  if (const auto node = sys::numa_node_near_pci(info.pci_address, sys)) return node;
  const int reported = attribute_of(cuda, device, DeviceAttribute::host_numa_id, -1);
  return reported >= 0 ? std::optional(static_cast<unsigned>(reported)) : std::nullopt;
}

}  // namespace

CudaDriver::CudaDriver(std::shared_ptr<const CudaLibrary> cuda, DriverInfo info, std::string sys)
    : cuda_(std::move(cuda)), info_(std::move(info)), sys_(std::move(sys)) {}
CudaDriver::~CudaDriver() = default;

Result<std::unique_ptr<CudaDriver>> CudaDriver::open(const CudaDriverOptions& options) {
  TOWPATH_TRY(auto cuda, CudaLibrary::open(options.library));
  TOWPATH_TRY(std::string version, cuda->version());
  DriverInfo info{.name = "cuda",
                  .version = std::move(version),
                  .library = cuda->library().path(),
                  .is_gpu = true};
  return std::unique_ptr<CudaDriver>(new CudaDriver(std::move(cuda), std::move(info), options.sys));
}

Result<unsigned> CudaDriver::device_count() const {
  int count = 0;
  TOWPATH_TRY(cuda_->check(cuda_->call().device_count(&count), "cannot count the GPUs"));
  return static_cast<unsigned>(count);
}

Result<DeviceInfo> CudaDriver::describe(unsigned ordinal) const {
  TOWPATH_TRY(const unsigned count, device_count());
  if (ordinal >= count)
    return error(Code::out_of_range, cat("no GPU ", ordinal, " among the ", count, " of CUDA"),
                 "use an ordinal below the count; CUDA_VISIBLE_DEVICES hides others");
  const auto& call = cuda_->call();
  CuDevice device = 0;
  TOWPATH_TRY(cuda_->check(call.device_get(&device, static_cast<int>(ordinal)), "GPU ", ordinal));
  std::array<char, 128> name{};
  TOWPATH_TRY(cuda_->check(call.device_name(name.data(), name.size(), device),
                           "cannot ask for the name of GPU ", ordinal));
  std::size_t bytes = 0;
  TOWPATH_TRY(cuda_->check(call.device_memory(&bytes, device), "cannot ask for the memory of GPU ",
                           ordinal));
  std::array<char, 32> pci{};  // not every GPU is on a PCI bus: empty then
  (void)call.device_pci(pci.data(), pci.size() - 1, device);
  DeviceInfo info{.ordinal = ordinal,
                  .name = std::string(name.data()),
                  .memory_bytes = bytes,
                  .compute_major = attribute_of(*cuda_, device, DeviceAttribute::compute_major, 0),
                  .compute_minor = attribute_of(*cuda_, device, DeviceAttribute::compute_minor, 0),
                  .pci_address = std::string(pci.data()),
                  .has_pools = attribute_of(*cuda_, device, DeviceAttribute::memory_pools, 0) != 0};
  info.numa_node = node_of(*cuda_, device, info, sys_);
  return info;
}

Result<bool> CudaDriver::exports_dma_buf(unsigned ordinal) const {
  CuDevice device = 0;
  TOWPATH_TRY(
      cuda_->check(cuda_->call().device_get(&device, static_cast<int>(ordinal)), "GPU ", ordinal));
  const int reported = attribute_of(*cuda_, device, DeviceAttribute::dma_buf, -1);
  if (reported >= 0) return reported != 0;
  return error(Code::unsupported, "the driver does not know the attribute",
               "use a driver of CUDA 11.7 or newer, or modprobe nvidia_peermem");
}

Result<std::shared_ptr<Device>> CudaDriver::open(unsigned ordinal) {
  TOWPATH_TRY(DeviceInfo info, describe(ordinal));
  const run::MutexLock lock(mutex_);
  if (devices_.size() <= ordinal) devices_.resize(ordinal + 1);
  auto device = devices_[ordinal].lock();
  if (device == nullptr) {
    TOWPATH_TRY(device, cuda::CudaDevice::open(cuda_, info_, std::move(info)));
    devices_[ordinal] = device;
  }
  return std::shared_ptr<Device>(std::move(device));
}

Result<PointerFacts> CudaDriver::facts_of(std::uint64_t address) const {
  using cuda::MemoryType;
  using cuda::PointerAttribute;
  std::array attributes{PointerAttribute::memory_type, PointerAttribute::is_managed,
                        PointerAttribute::device_ordinal};
  MemoryType type = MemoryType::none;  // stays so for an address that CUDA does not know
  int managed = 0;
  int ordinal = 0;
  std::array<void*, 3> values{&type, &managed, &ordinal};
  const cuda::CuResult result =
      cuda_->call().pointer_facts(attributes.size(), attributes.data(), values.data(), address);
  if (result == cuda::kInvalidContext) return PointerFacts{};  // of no context of CUDA's
  TOWPATH_TRY(cuda_->check(result, "cannot ask what lies at ", hex(address)));
  if (type == MemoryType::none) return PointerFacts{};
  return PointerFacts{.kind = type == MemoryType::host ? MemoryKind::pinned : MemoryKind::device,
                      .device = static_cast<unsigned>(ordinal),
                      .managed = managed != 0};
}

}  // namespace towpath::device
