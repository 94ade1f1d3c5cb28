#include "tools/bench/own_memory.h"

#include <towpath/core/format.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/shared_region.h>

namespace towpath::tools::bench {

Result<OwnMemory> OwnMemory::make(MemoryKind kind, const Machine& machine, std::uint64_t bytes) {
  OwnMemory made;
  if (kind == MemoryKind::system) {
    TOWPATH_TRY(made.region_,
                memory::SharedMemoryRegion::create({.name = "towpath-bench", .size_bytes = bytes}));
    made.window_ = bytes_at(made.begin().address, bytes);
    return made;
  }
  if (kind != MemoryKind::pinned && kind != MemoryKind::device)
    return error(Code::invalid_argument, cat("no side has ", name_of(kind), " memory"),
                 "use system, pinned or device memory");
  TOWPATH_TRY(auto device, machine.first_device());
  if (!device->driver().is_gpu) made.remark_ = "no GPU: host memory emulates the device; ";
  if (kind == MemoryKind::pinned) {
    TOWPATH_TRY(made.region_, memory::PinnedRegion::allocate(std::move(device), bytes));
    made.window_ = bytes_at(made.begin().address, bytes);
    return made;
  }
  TOWPATH_TRY(made.region_, memory::DeviceRegion::allocate(device, bytes));
  made.device_ = std::move(device);
  made.own_window_.resize(bytes);
  made.window_ = made.own_window_;
  return made;
}

Status OwnMemory::push(std::uint64_t bytes) {
  if (device_ == nullptr) return {};
  return device_->copy({begin().address, address_of(window_.data()), bytes});
}

Status OwnMemory::fill(std::uint64_t bytes, std::uint64_t seed) {
  bench::fill(window_.first(bytes), seed);
  return push(bytes);
}

Status OwnMemory::poison(std::uint64_t bytes) {
  bench::poison(window_.first(bytes));
  return push(bytes);
}

Result<std::optional<std::uint64_t>> OwnMemory::first_wrong(const Blocks& blocks) {
  if (device_ != nullptr) {
    TOWPATH_TRY(device_->copy({address_of(window_.data()), begin().address, window_.size()}));
  }
  return bench::first_wrong(window_, blocks);
}

}  // namespace towpath::tools::bench
