// Nvml: NVIDIA's management library (libnvidia-ml.so.1), opened at run time, for what CUDA's driver
// does not report. It changes nothing.
// Thread: any; immutable once opened.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/result.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::device::cuda {

class Nvml {
 public:
  /// Opens, and starts it. Errors: unsupported (not installed, too old), or what it answers.
  static Result<std::unique_ptr<const Nvml>> open(const std::string& name);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Whether the driver keeps the GPU ready while nobody uses it. `pci_address` as in /sys.
  /// Errors: unsupported (this GPU does not report), not_found, denied, unavailable.
  Result<bool> persists(const std::string& pci_address) const;

 private:
  // The little of its interface that we call; nvmlReturn_t and nvmlEnableState_t are ints, and 0 is
  // success and disabled. Source: NVIDIA's nvml.h of CUDA 13; none of it has changed since
  // version 5.
  struct DeviceTag;
  using Answer = int;
  struct Functions {
    Answer (*init)() = nullptr;
    Answer (*shutdown)() = nullptr;
    const char* (*error_string)(Answer) = nullptr;
    Answer (*device_at)(const char* pci_address, DeviceTag** device) = nullptr;
    Answer (*persistence_mode)(DeviceTag* device, int* mode) = nullptr;
  };

  explicit Nvml(sys::DynamicLibrary library) : library_(std::move(library)) {}
  Status find_functions();
  Status check(Answer answer, const std::string& what) const;

  sys::DynamicLibrary library_;
  Functions call_;
  bool started_ = false;
};

}  // namespace towpath::device::cuda
