// SystemRegion: ordinary host memory of this process.
//
// It is not shared with other processes by itself (see shared_region.h) and not pinned for a GPU.
// Invariants: page-aligned, so at least to 4096 bytes, which direct file I/O needs; zeroed.
// Thread: immutable.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/host_pages.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

class SystemRegion final : public Region {
  struct Private {};  // makes the constructor ours, yet reachable by make_shared

 public:
  /// Errors: invalid_argument (size 0), exhausted (the kernel has no such extent to give).
  static Result<std::shared_ptr<SystemRegion>> allocate(std::uint64_t size_bytes);

  /// In huge pages, near a NUMA node, touched: as the options say, and placement() reports what was
  /// had. Errors: those of HostPages::allocate.
  static Result<std::shared_ptr<SystemRegion>> allocate(const HostPagesOptions& options);

  SystemRegion(Private, HostPages pages, std::uint64_t size_bytes) noexcept
      : pages_(std::move(pages)), size_bytes_(size_bytes) {}

  /// As long as was asked for, also where the last page is longer.
  RegionDescriptor descriptor() const override;
  const Placement& placement() const noexcept { return pages_.placement; }

 private:
  HostPages pages_;
  std::uint64_t size_bytes_;
};

}  // namespace towpath::memory
