// SystemRegion: ordinary host memory of this process.
//
// It is not shared with other processes by itself (see shared_region.h) and not pinned for a GPU.
// Invariants: page-aligned, so at least to 4096 bytes, which direct file I/O needs; zeroed.
// Thread: immutable.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>
#include <towpath/sys/mapping.h>

namespace towpath::memory {

class SystemRegion final : public Region {
  struct Private {};  // makes the constructor ours, yet reachable by make_shared

 public:
  /// Errors: invalid_argument (size 0), exhausted (the kernel has no such stretch to give).
  static Result<std::shared_ptr<SystemRegion>> allocate(std::uint64_t size_bytes);

  SystemRegion(Private, sys::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}

  RegionDescriptor descriptor() const override;

 private:
  sys::Mapping mapping_;
};

}  // namespace towpath::memory
