// The fake libcuda's modules and launches; see fake_cuda.cc. It compiles nothing: a launch of the
// kernel that it finds named in a module runs the same source, as this processor has it.
#include <cstring>
#include <string_view>

#include <towpath/device/kernels/box_kernel_ptx.h>
#include <towpath/device/kernels/box_launch.h>
#include <towpath/device/testing/fake_cuda_state.h>

using namespace towpath::device;             // NOLINT: the whole file speaks of it
using namespace towpath::device::cuda;       // NOLINT
using namespace towpath::device::fake_cuda;  // NOLINT

namespace {

CuFunctionTag box_kernel;

bool is_reached(std::uint64_t address) {
  return fake().driver.facts_of(address)->kind != towpath::MemoryKind::system;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  TOWPATH_FAKE("cuModuleLoadData", true);
  const std::string entry = towpath::cat(".entry ", kernel::kBoxKernelEntry, "(");
  if (std::string_view(static_cast<const char*>(image)).find(entry) == std::string_view::npos)
    return complain("cuModuleLoadData", "no kernel that it knows");
  *module = new CuModuleTag;
  return kSuccess;
}
CuResult cuModuleUnload(CuModule module) {
  TOWPATH_FAKE("cuModuleUnload", true);
  delete module;
  return kSuccess;
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  TOWPATH_FAKE("cuModuleGetFunction", true);
  if (std::strcmp(name, kernel::kBoxKernelEntry) != 0) return kNotFound;
  *function = &box_kernel;
  return kSuccess;
}
CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CuStream stream, void** parameters, void** extra) {
  TOWPATH_FAKE("cuLaunchKernel", true);
  if (function != &box_kernel || extra != nullptr || shared_bytes != 0)
    return complain("cuLaunchKernel", "not what was meant");
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 ||
      block_x != kernel::kThreads)
    return complain("cuLaunchKernel", "threads that the kernel does not expect");
  const auto launch = *static_cast<const kernel::BoxLaunch*>(parameters[0]);  // as CUDA: now
  for (unsigned i = 0; i < launch.boxes; ++i)
    if (!is_reached(launch.starts[i].source) || !is_reached(launch.starts[i].target))
      return complain("cuLaunchKernel", "memory that no GPU reaches");
  return result_of(stream->stream->run([=] { kernel::run_here(launch, grid_x); }));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
