#include <algorithm>

#include <towpath/device/cuda/cuda_kernel.h>
#include <towpath/device/kernels/box_kernel_ptx.h>
#include <towpath/device/kernels/box_launch.h>

namespace towpath::device::cuda {
namespace {

// A multiprocessor holds up to 2048 threads; more blocks than that would only wait.
constexpr unsigned kBlocksPerMultiprocessor = 2048 / kernel::kThreads;

}  // namespace

Status BoxKernel::load() {
  const run::MutexLock lock(mutex_);
  if (!loaded_) loaded_ = load_first();
  return *loaded_;
}

Status BoxKernel::load_first() {
  const char* const text = kernel::box_kernel_ptx();
  if (*text == '\0')
    return error(Code::unsupported, "not_built: this build has no kernels for NVIDIA's GPUs",
                 "install clang 16 or newer (Debian: clang-19), configure and build again");
  const Status taken =
      cuda_.check(cuda_.call().module_load(&module_, text), "cannot load it on GPU ", device_);
  if (!taken.ok())
    return error(Code::unsupported, "the GPU's driver does not take the kernel that copies boxes",
                 "it is for compute capability 7.0 and newer; copies go without it")
        .because(taken);
  TOWPATH_TRY(
      cuda_.check(cuda_.call().module_function(&function_, module_, kernel::kBoxKernelEntry),
                  "GPU ", device_, " does not find ", kernel::kBoxKernelEntry));
  int multiprocessors = 0;
  TOWPATH_TRY(cuda_.check(
      cuda_.call().device_attribute(&multiprocessors, DeviceAttribute::multiprocessors, device_),
      "cannot ask for the multiprocessors of GPU ", device_));
  most_blocks_ = static_cast<unsigned>(std::max(multiprocessors, 1)) * kBlocksPerMultiprocessor;
  return {};
}

void BoxKernel::unload() {
  if (module_ != nullptr) (void)cuda_.call().module_unload(module_);
}

Status BoxKernel::launch(const kernel::BoxLaunch& what, CuStream stream) const {
  kernel::BoxLaunch copied = what;  // CUDA's parameters are not const
  void* parameters[] = {&copied};
  return cuda_.check(
      cuda_.call().launch(function_, kernel::blocks_for(what, most_blocks_), 1, 1, kernel::kThreads,
                          1, 1, 0, stream, static_cast<void**>(parameters), nullptr),
      "cannot copy ", what.boxes, " boxes of ", what.lanes_per_box, " lanes of ", what.lane_bytes,
      " bytes on GPU ", device_);
}

}  // namespace towpath::device::cuda
