// BoxKernel: the kernel that copies boxes, on one GPU of CUDA. Private to this folder.
// Thread: any.
#pragma once

#include <optional>

#include <towpath/device/cuda/cuda_library.h>
#include <towpath/device/kernels/box_kernel.h>
#include <towpath/run/mutex.h>

namespace towpath::device::cuda {

class BoxKernel {
 public:
  BoxKernel(const CudaLibrary& cuda, CuDevice device) : cuda_(cuda), device_(device) {}

  /// Loads it into the current context, the first time; the answer is kept. Errors: unsupported
  /// (not_built; the driver does not take it), exhausted.
  Status load();
  /// What was given before has passed.
  void unload();
  /// Once loaded. The launch is copied before this returns.
  Status launch(const kernel::BoxLaunch& what, CuStream stream) const;

 private:
  Status load_first();

  const CudaLibrary& cuda_;
  const CuDevice device_;
  run::Mutex mutex_;
  std::optional<Status> loaded_ TOWPATH_GUARDED_BY(mutex_);  // nothing: never tried
  // Written once, before load() first says ok.
  CuModule module_ = nullptr;
  CuFunction function_ = nullptr;
  unsigned most_blocks_ = 0;
};

}  // namespace towpath::device::cuda
