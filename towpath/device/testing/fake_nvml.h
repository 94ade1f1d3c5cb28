// What tests may ask of the fake libnvidia-ml (fake_nvml.cc). Thread: any.
#pragma once

#include <towpath/sys/dynamic_library.h>

namespace towpath::device::testing {

class FakeNvml {
 public:
  /// The library that this build made.
  static const char* path() noexcept { return TOWPATH_FAKE_NVML; }

  FakeNvml() : library_(sys::DynamicLibrary::open(path()).value()) {}

  /// The next call of `symbol` answers so, and does nothing.
  void fail_next(const char* symbol, int answer) const {
    reinterpret_cast<void (*)(const char*, int)>(library_.find("towpath_fake_nvml_fail"))(symbol,
                                                                                          answer);
  }

 private:
  sys::DynamicLibrary library_;
};

}  // namespace towpath::device::testing
