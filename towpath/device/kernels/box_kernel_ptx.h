// The box kernel as text for NVIDIA's driver (PTX), which was made when this was built.
// Thread: immutable.
#pragma once

namespace towpath::device::kernel {

inline constexpr const char* kBoxKernelEntry = "towpath_copy_boxes";

/// Ends in a zero, as the driver wants it. Empty: this build had no clang that makes it.
const char* box_kernel_ptx() noexcept;

}  // namespace towpath::device::kernel
