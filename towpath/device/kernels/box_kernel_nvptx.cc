// The box kernel for GPUs of NVIDIA. No compiler of the tree's build reads this: a clang that knows
// NVPTX makes text of it, which lies in the library and which the GPU's driver compiles for the GPU
// that is there. No header or library of CUDA's is needed for that.
#include <towpath/device/kernels/box_kernel.h>

using towpath::device::kernel::U32;

extern "C" __attribute__((nvptx_kernel)) void towpath_copy_boxes(
    towpath::device::kernel::BoxLaunch launch) {
  run_thread(launch, {.block = static_cast<U32>(__nvvm_read_ptx_sreg_ctaid_x()),
                      .thread = static_cast<U32>(__nvvm_read_ptx_sreg_tid_x()),
                      .blocks = static_cast<U32>(__nvvm_read_ptx_sreg_nctaid_x())});
}
