// Launches of the box kernel: boxes of any shapes, as what GPUs are given. Pure: moves nothing.
// Thread: any.
#pragma once

#include <span>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/device/kernels/box_kernel.h>
#include <towpath/device/values.h>

namespace towpath::device::kernel {

/// Boxes of one shape go together, up to as many as a launch takes; boxes without a byte in none.
/// Errors: invalid_argument (a null address, too many dimensions), unsupported (a box of 2^32 lanes
/// or more).
Result<std::vector<BoxLaunch>> launches_of(std::span<const BoxCopy> boxes);

/// Blocks of threads that give each thread one lane; at most `most`: then threads take several.
U32 blocks_for(const BoxLaunch& launch, U32 most);

/// All its threads, one after the other, on this processor.
void run_here(const BoxLaunch& launch, U32 blocks);

}  // namespace towpath::device::kernel
