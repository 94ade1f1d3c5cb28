#include <towpath/core/format.h>
#include <towpath/device/cuda/nvml.h>

namespace towpath::device::cuda {
namespace {

// nvmlReturn_t: those that we distinguish.
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlNotSupported = 3;
constexpr int kNvmlNoPermission = 4;
constexpr int kNvmlNotFound = 6;

Code code_of(int answer) {
  switch (answer) {
    case kNvmlNotSupported: return Code::unsupported;
    case kNvmlNoPermission: return Code::denied;
    case kNvmlNotFound: return Code::not_found;
    default: return Code::unavailable;
  }
}

}  // namespace

Result<std::unique_ptr<const Nvml>> Nvml::open(const std::string& name) {
  auto library = sys::DynamicLibrary::open(name);
  if (!library.ok())
    return error(Code::unsupported, "NVIDIA's management library is not here",
                 "install it with the driver (Debian: libnvidia-ml1); in a container, ask for the "
                 "driver's capability utility")
        .because(library.status());
  std::unique_ptr<Nvml> made(new Nvml(*std::move(library)));
  TOWPATH_TRY(made->find_functions());
  TOWPATH_TRY(made->check(made->call_.init(), "cannot start NVIDIA's management library"));
  made->started_ = true;
  return std::unique_ptr<const Nvml>(std::move(made));
}

Nvml::~Nvml() {
  if (started_) (void)call_.shutdown();
}

Status Nvml::find_functions() {
  const auto find = [&](auto& function, const char* symbol) -> Status {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library_.find(symbol));
    if (function != nullptr) return {};
    return error(Code::unsupported, cat(library_.path(), " has no ", symbol),
                 "use the library of the driver that runs");
  };
  TOWPATH_TRY(find(call_.init, "nvmlInit_v2"));
  TOWPATH_TRY(find(call_.shutdown, "nvmlShutdown"));
  TOWPATH_TRY(find(call_.error_string, "nvmlErrorString"));
  TOWPATH_TRY(find(call_.device_at, "nvmlDeviceGetHandleByPciBusId_v2"));
  return find(call_.persistence_mode, "nvmlDeviceGetPersistenceMode");
}

Status Nvml::check(Answer answer, const std::string& what) const {
  if (answer == kNvmlSuccess) return {};
  const char* const text = call_.error_string(answer);
  return error(code_of(answer),
               cat(what, ": ", text == nullptr ? "no word for it" : text, " (", answer, ")"));
}

Result<bool> Nvml::persists(const std::string& pci_address) const {
  DeviceTag* device = nullptr;
  TOWPATH_TRY(check(call_.device_at(pci_address.c_str(), &device),
                    cat("cannot find the GPU at ", printable(pci_address))));
  int mode = 0;
  TOWPATH_TRY(check(call_.persistence_mode(device, &mode), "cannot ask for persistence mode"));
  return mode != 0;
}

}  // namespace towpath::device::cuda
