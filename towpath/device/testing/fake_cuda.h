// What tests may ask of the fake libcuda: the functions of fake_cuda.cc, found in the library.
// Thread: any.
#pragma once

#include <towpath/device/cuda/cuda_abi.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::device::testing {

class FakeCuda {
 public:
  /// The library that this build made.
  static const char* path() noexcept { return TOWPATH_FAKE_CUDA; }

  FakeCuda() : library_(sys::DynamicLibrary::open(path()).value()) {}

  /// The next call of `symbol` in any thread answers so, and does nothing; or the one after `skip`.
  void fail_next(const char* symbol, cuda::CuResult result, int skip = 0) const {
    find<void (*)(const char*, int, int)>("towpath_fake_cuda_fail")(symbol, result, skip);
  }
  /// Contexts that are current on this thread, those beneath included.
  int current_depth() const { return find<int (*)()>("towpath_fake_cuda_depth")(); }
  /// Of this thread: 0 where nobody has changed it.
  int capture_mode() const { return find<int (*)()>("towpath_fake_cuda_capture_mode")(); }
  /// Another thread captures a graph, until this is called with false.
  void set_capturing(bool capturing) const {
    find<void (*)(bool)>("towpath_fake_cuda_set_capturing")(capturing);
  }
  /// How often the primary context of device 0 is retained.
  int retained() const { return find<int (*)()>("towpath_fake_cuda_retained")(); }
  /// What the library found wrong in the arguments of calls so far; empty: nothing.
  const char* complaints() const {
    return find<const char* (*)()>("towpath_fake_cuda_complaints")();
  }

 private:
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(library_.find(name));
  }

  sys::DynamicLibrary library_;
};

}  // namespace towpath::device::testing
